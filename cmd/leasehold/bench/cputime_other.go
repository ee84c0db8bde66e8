//go:build !linux

package bench

import "time"

// cpuTime is known on Linux only.
func cpuTime(int) (time.Duration, bool) { return 0, false }
