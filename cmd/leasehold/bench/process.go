package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// clockTick is the unit of CPU times in /proc on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// process is a process whose use of the machine is watched. A nil process
// cannot be watched.
type process struct{ pid int }

// usage is what a process has used since it began, and its memory now.
type usage struct {
	cpu     time.Duration // user and system
	written int64         // bytes that it caused to be written to storage
	rss     int64         // bytes resident
}

// usage reads /proc; it is false where there is none, or no permission.
func (p *process) usage() (usage, bool) {
	if p == nil || p.pid <= 0 {
		return usage{}, false
	}
	dir := fmt.Sprintf("/proc/%d/", p.pid)
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return usage{}, false
	}
	// The name in parentheses may hold anything; utime is the 12th field after it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return usage{}, false
	}
	user, err := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	if err != nil || err2 != nil {
		return usage{}, false
	}
	u := usage{cpu: time.Duration(user+system) * clockTick}
	u.rss = procNumber(dir+"status", "VmRSS:") << 10
	u.written = procNumber(dir+"io", "write_bytes:")
	return u, true
}

// procNumber finds the number after a key of a file of /proc; 0 without it.
func procNumber(file, key string) int64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	_, rest, ok := bytes.Cut(b, append([]byte("\n"), key...))
	fields := bytes.Fields(rest)
	if !ok || len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return n
}
