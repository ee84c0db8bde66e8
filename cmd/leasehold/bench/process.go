package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// process is a process whose use of the machine is watched. A nil process
// cannot be watched.
type process struct{ pid int }

// usage is what a process has used since it began, and its memory now.
type usage struct {
	cpu     time.Duration // user and system
	written int64         // bytes that it caused to be written to storage
	rss     int64         // bytes resident

	database time.Duration // user and system, of the database's processes
	known    bool
}

// usage is false where there is no /proc, or no such process.
func (p *process) usage() (usage, bool) {
	if p == nil || p.pid <= 0 {
		return usage{}, false
	}
	cpu, ok := cpuTime(p.pid)
	if !ok {
		return usage{}, false
	}
	dir := fmt.Sprintf("/proc/%d/", p.pid)
	u := usage{cpu: cpu}
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

// watched are the processes that a load is charged to. The zero value cannot be watched.
type watched struct {
	servers  []*process
	database *database
}

// usage is the sum over all servers; it is not known if that of one is not.
func (w watched) usage() usage {
	var sum usage
	for _, p := range w.servers {
		u, ok := p.usage()
		if !ok {
			return usage{}
		}
		sum.known = true
		sum.cpu += u.cpu
		sum.written += u.written
		sum.rss += u.rss
	}
	sum.database = w.database.cpu()
	return sum
}
