package app

import (
	"os"
	"runtime"
	"runtime/debug"
	samples "runtime/metrics"
)

// heapFloor is the size up to which a small heap grows before it is collected: a server that keeps little in memory would otherwise collect many
// times a second, for the requests alone.
const heapFloor = 64 << 20

// leastGrowth and mostGrowth bound, in percent, by how much the heap grows between collections. The least is Go's own; by the most even an empty
// heap ends at heapFloor, since Go takes 4 MiB for the least that is in use.
const leastGrowth, mostGrowth = 100, heapFloor * 100 / (4 << 20)

// liveBytes is how much the last collection found in use.
const liveBytes = "/gc/heap/live:bytes"

// spareCollector has a small heap grow up to heapFloor before it is collected, unless the environment says how it is to grow.
func spareCollector() {
	if os.Getenv("GOGC") == "" {
		paceCollector(0)
	}
}

// paceCollector sets the growth of the heap, which is so many percent now, by what is in use, and again after each collection.
func paceCollector(now int) {
	live := []samples.Sample{{Name: liveBytes}}
	samples.Read(live)
	next := growth(live[0].Value.Uint64())
	if next != now {
		debug.SetGCPercent(next)
	}
	// Nothing refers to the mark, so that the next collection finds it.
	runtime.AddCleanup(new(*int), paceCollector, next)
}

// growth returns by how many percent a heap of which so many bytes are in use may grow.
func growth(live uint64) int {
	switch {
	case live*(100+leastGrowth)/100 >= heapFloor:
		return leastGrowth
	case live == 0:
		return mostGrowth
	default:
		return min(mostGrowth, int((heapFloor-live)*100/live)) //nolint:gosec // as large as heapFloor at the most
	}
}
