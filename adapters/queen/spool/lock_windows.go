//go:build windows

package spool

import (
	"os"

	"golang.org/x/sys/windows"
)

// lock takes the file for this process; it ends with the file's closing.
func lock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
}

// unlock gives the file back.
func unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, new(windows.Overlapped))
}

// syncDir does nothing: a directory cannot be synced here, and names are durable without.
func syncDir(string) error { return nil }
