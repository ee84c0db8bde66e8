//go:build unix

package sqlite

import (
	"os"
	"syscall"
)

// lockFile takes the lock that keeps a second server out of a directory. It ends with the process, however it ends.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// unlockFile gives the lock back now: a process that is just being forked may hold the file open a little longer.
func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
