package bench

import "fmt"

// firstBars is the least ratio to the HTTP floor per load.
var firstBars = map[string]float64{"push:1x32": .40, "push:1x256": .55, "push:100x8": .50, "settle:100x8": .35, "settle:1x32": .30}

// embedded are the bars of the embedded store.
func (b *barsCmd) embedded() []bar {
	floors := &setting{protocol: "queen", change: func(r *runCmd) { r.Floors = true }}
	var list []bar
	for _, l := range []string{"push:1x32", "push:1x256", "push:100x8", "settle:100x8", "settle:1x32"} {
		list = append(list, bar{name: l + ", of the HTTP floor", limit: firstBars[l], of: floors, load: l, value: ratioOf})
	}
	list = append(list, bar{
		name: "bytes written per message, push:1x32", limit: 2000, atMost: true,
		of: floors, load: "push:1x32", value: func(r *result) float64 { return r.Written },
	})
	list = append(list, b.sizes()...)
	return append(list, bar{name: "bytes of memory per waiting message", limit: 40, atMost: true, measure: b.memory})
}

// sizes are the bars of both stores that compare a large setting with a small one, and what failing deliveries leave in a large one.
func (b *barsCmd) sizes() []bar {
	var list []bar
	for _, l := range []string{"both:100x8", "both:1x32"} {
		list = append(list, bar{
			name: fmt.Sprintf("CPU with a backlog of %d, of 10000, %s", b.Backlog, l), limit: 1.3, atMost: true,
			measure: b.pair("queen", l, cpuOf, func(r *runCmd) { r.Backlog = 10_000 }, func(r *runCmd) { r.Backlog = b.Backlog }),
		})
	}
	for _, l := range []string{"push:1x32", "settle:1x32"} {
		single := func(r *runCmd) { r.Backlog, r.FillBatch, r.Partitions = b.Backlog/10, 1, 1 }
		list = append(list, bar{
			name: fmt.Sprintf("CPU with %d partitions, of 1, %s", b.Backlog/10, l), limit: 2, atMost: true,
			measure: b.pair("queen", l, cpuOf, single, func(r *runCmd) { single(r); r.Partitions = b.Backlog / 10 }),
		})
	}
	return append(
		list,
		bar{
			name: "1000 queues, of 1, both:1x32", limit: .5,
			measure: b.pair("querator", "both:1x32", rateOf, func(*runCmd) {}, func(r *runCmd) { r.Queues = 1000 }),
		},
		bar{
			name: "a delay of 5 s on every message, of none, push:100x8", limit: .3,
			measure: b.pair("cfqueues", "push:100x8", rateOf, func(*runCmd) {}, func(r *runCmd) { r.Delay = 5 }),
		},
		bar{name: "rows per message when all deliveries fail", limit: 1. / 8, atMost: true, measure: b.rows},
	)
}
