//go:build windows

package sqlite

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockFile takes the lock that keeps a second server out of a directory. It ends with the process, however it ends.
func lockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
}

// unlockFile gives the lock back.
func unlockFile(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, new(windows.Overlapped))
}
