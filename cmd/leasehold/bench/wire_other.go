//go:build !linux

package bench

import "errors"

// newPollWire is for Linux only.
func newPollWire([]string) (wire, error) { return nil, errors.ErrUnsupported }
