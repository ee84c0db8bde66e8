package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the CPU that another process has used, user and system, from its
// CPU clock: /proc has it in hundredths of a second only.
func cpuTime(pid int) (time.Duration, bool) {
	// How Linux names the clock of a process (man clock_getcpuclockid).
	clock := int32(^pid<<3 | 2) //nolint:gosec // process ids have 22 bits
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}
