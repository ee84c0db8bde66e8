//go:build !unix

package storetest

import "time"

// cpuTime is not known here; benchmarks then leave the figure out.
func cpuTime() time.Duration { return 0 }
