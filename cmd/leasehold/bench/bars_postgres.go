package bench

// postgres are the bars of a gateway on PostgreSQL. Limits in messages per second are multiples of what the native Queen
// server, 0.15, did on the machine of floorThen.
func (b *barsCmd) postgres() []bar {
	pushes := &setting{protocol: "queen", change: func(r *runCmd) { r.Floors, r.IDs, r.Reference = true, true, true }}
	loads := &setting{protocol: "queen", change: func(r *runCmd) { r.Reference = true }}
	list := []bar{
		{name: "push:1x32, of the HTTP floor", limit: .30, of: pushes, load: "push:1x32", value: ratioOf},
		{name: "push:1x256, of the HTTP floor", limit: .50, of: pushes, load: "push:1x256", value: ratioOf},
		{name: "push:100x8 with ids, of the HTTP floor", limit: .35, of: pushes, load: "push:100x8", value: ratioOf},
		{
			name: "CPU of the database per message, push:100x8 with ids", limit: 4, atMost: true,
			of: pushes, load: "push:100x8", value: func(r *result) float64 { return r.DatabaseCPU },
		},
	}
	for _, x := range []struct {
		of    *setting
		load  string
		limit float64
	}{
		{pushes, "push:1x32", 5 * 2500},
		{pushes, "push:100x8", 6 * 25_000},
		{loads, "settle:100x16", 8 * 12_600},
		{loads, "take:100x16", 5 * 36_900},
		{loads, "settle:1x32", 8 * 815},
		{loads, "both:100x8+16", 6 * 8000},
		{loads, "both:1x16", 12 * 410},
	} {
		list = append(list, bar{name: x.load + ", messages per second", limit: x.limit, scaled: true, of: x.of, load: x.load, value: rateOf})
	}
	steady := &setting{protocol: "queen", change: func(r *runCmd) { r.Rate = 200 }}
	for _, x := range []struct {
		name, load string
		limit      float64
		value      func(*result) float64
	}{
		{"push at 200/s, p50 in ms", "push:1x8", 2, func(r *result) float64 { return r.P50 }},
		{"push at 200/s, p99 in ms", "push:1x8", 6, func(r *result) float64 { return r.P99 }},
		{"push to delivery at 200/s with 8 consumers, p50 in ms", "both:1x8", 5, func(r *result) float64 { return r.DeliverP50 }},
		{"push to delivery at 200/s with 8 consumers, p99 in ms", "both:1x8", 20, func(r *result) float64 { return r.DeliverP99 }},
	} {
		list = append(list, bar{name: x.name, limit: x.limit, atMost: true, of: steady, load: x.load, value: x.value})
	}
	ids := func(r *runCmd) { r.IDs = true }
	list = append(list, bar{
		name: "two gateways on the same partitions, of one, push:100x8 with ids", limit: .8,
		measure: b.pair("queen", "push:100x8", rateOf, ids, func(r *runCmd) { ids(r); r.Gateways = 2 }),
	})
	return append(append(list, b.belowHTTP()...), b.sizes()...)
}
