package testenv

import "syscall"

// dieWithParent ends the server when the tests are killed.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
