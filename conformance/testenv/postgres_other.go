//go:build unix && !linux

package testenv

import "syscall"

// dieWithParent is not possible here.
func dieWithParent(*syscall.SysProcAttr) {}
