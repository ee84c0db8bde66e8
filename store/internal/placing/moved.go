package placing

import (
	"slices"

	"github.com/leasehold/leasehold/core"
)

// Gap is a partition whose head is above what the segments of a commit know.
type Gap struct {
	Partition core.PartitionKey
	// From and To are the offsets between.
	From, To int64
	segments []int
}

// Gaps returns the partitions about which AppendParams.Moved is to be asked, by key.
func Gaps(segments []core.NewSegment, logs Logs) []Gap {
	var out []Gap
	at := map[core.PartitionKey]int{}
	for i := range segments {
		n := &segments[i]
		log, ok := logs(n.Partition)
		if !ok || n.Know < 0 || n.Know == log.Head {
			continue
		}
		j, known := at[n.Partition]
		if !known {
			j = len(out)
			at[n.Partition] = j
			out = append(out, Gap{Partition: n.Partition, From: n.Know + 1, To: log.Head})
		}
		out[j].From = min(out[j].From, n.Know+1)
		out[j].segments = append(out[j].segments, i)
	}
	slices.SortFunc(out, func(a, b Gap) int { return int(a.Partition - b.Partition) })
	return out
}

// Fill asks moved about each gap and returns the segments to write; those given are not changed. newer returns the headers in a gap.
func Fill(p *core.AppendParams, gaps []Gap, logs Logs, newer func(Gap) ([]core.SegmentHeader, error)) ([]core.NewSegment, error) {
	out := slices.Clone(p.Segments)
	for _, g := range gaps {
		headers, err := newer(g)
		if err != nil {
			return nil, err
		}
		log, _ := logs(g.Partition)
		with, err := p.Moved(g.Partition, log, headers, g.segments)
		if err != nil {
			return nil, err
		}
		if len(with) != len(g.segments) {
			return nil, core.Errorf(core.CodeInternal, "append", "%d segments were given in the place of %d", len(with), len(g.segments))
		}
		for j, i := range g.segments {
			out[i] = with[j]
			out[i].Know = -1
		}
	}
	return out, nil
}
