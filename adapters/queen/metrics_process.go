package queen

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// process is what the process uses.
type process struct {
	// resident and virtual are 0 where the system does not say.
	resident, virtual, heap int64
	goroutines              int
	user, system            time.Duration
}

func readProcess() process {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/cpu/classes/user:cpu-seconds"}}
	metrics.Read(samples)
	p := process{goroutines: runtime.NumGoroutine()}
	p.heap, p.virtual = clamp(samples[0].Value.Uint64()), clamp(samples[1].Value.Uint64())
	p.resident = p.virtual
	p.user = time.Duration(samples[2].Value.Float64() * float64(time.Second))
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		pages := strings.Fields(string(text))
		if len(pages) > 1 {
			size := int64(os.Getpagesize())
			p.virtual, p.resident = number(pages[0])*size, number(pages[1])*size
		}
	}
	if text, err := os.ReadFile("/proc/self/stat"); err == nil {
		p.readTimes(string(text))
	}
	return p
}

// readTimes reads the processor times, which are the 12th and 13th words behind the name in parentheses, in hundredths of a second.
func (p *process) readTimes(stat string) {
	words := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(words) > 12 {
		p.user, p.system = time.Duration(number(words[11]))*10*time.Millisecond, time.Duration(number(words[12]))*10*time.Millisecond
	}
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func clamp(n uint64) int64 {
	const most = 1<<63 - 1
	return int64(min(n, most))
}
