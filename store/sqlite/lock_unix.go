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
