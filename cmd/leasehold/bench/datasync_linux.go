package bench

import (
	"os"
	"syscall"
)

// datasync waits until what was written to f is on the disk.
func datasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
