package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// barsCmd measures everything that the embedded store is held to, each on a server and a store of its own.
type barsCmd struct {
	Only    string        `help:"Measure only the bars whose name has this in it." placeholder:"TEXT"`
	Runs    int           `default:"5" help:"Rounds, of which the medians are shown."`
	Seconds float64       `default:"3" help:"Length of each measurement."`
	Warmup  time.Duration `default:"2s" help:"Unmeasured time before the first round of a load."`
	Backlog int           `default:"1000000" help:"Messages of the large backlogs."`
	Binary  string        `help:"Program to start instead of this one." placeholder:"FILE" type:"path"`
	Scratch string        `help:"Folder for scratch files, on the disk to be measured. Default: the system's." placeholder:"DIR" type:"path"`
	JSON    bool          `name:"json" help:"Write the results as a list of JSON objects; the table then goes to standard error."`
}

// bar is a figure that the embedded store is held to.
type bar struct {
	name string
	// limit is the first bar: the least that is enough, or with atMost the most.
	limit  float64
	atMost bool
	// load is measured together with the others that have one, else measure is called.
	load    string
	measure func(ctx context.Context, log io.Writer) (float64, error)
}

// barResult is a bar's line of the report.
type barResult struct {
	Bar      string  `json:"bar"`
	Measured float64 `json:"measured"`
	Limit    float64 `json:"limit"`
	AtMost   bool    `json:"at_most"`
	Reached  bool    `json:"reached"`
}

// firstBars is the least ratio to the HTTP floor per load.
var firstBars = map[string]float64{"push:1x32": .40, "push:1x256": .55, "push:100x8": .50, "settle:100x8": .35, "settle:1x32": .30}

// bars are what is measured, in order.
func (b *barsCmd) bars() []bar {
	var list []bar
	for _, l := range []string{"push:1x32", "push:1x256", "push:100x8", "settle:100x8", "settle:1x32"} {
		list = append(list, bar{name: l + ", of the HTTP floor", limit: firstBars[l], load: l})
	}
	list = append(list, bar{name: "bytes written per message, push:1x32", limit: 2000, atMost: true, load: "push:1x32"})
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
		bar{name: "bytes of memory per waiting message", limit: 40, atMost: true, measure: b.memory},
		bar{name: "rows per message when all deliveries fail", limit: 1. / 8, atMost: true, measure: b.rows},
	)
}

func cpuOf(r *result) float64  { return r.CPU }
func rateOf(r *result) float64 { return r.PerSecond }

// load is the command that measures loads on a server of its own.
func (b *barsCmd) load(protocol string, loads ...string) *runCmd {
	return &runCmd{
		Protocol: protocol, Spawn: true, Binary: b.Binary, Loads: loads, Runs: b.Runs, Seconds: b.Seconds, Warmup: b.Warmup,
		Payload: 100, Queues: 1, Groups: 1, FillBatch: 100, Encoding: "json", Account: "bench", Scratch: b.Scratch,
	}
}

// pair measures a load in two settings in turns and returns the median of what the second showed, of the first.
func (b *barsCmd) pair(protocol, load string, value func(*result) float64, base, changed func(*runCmd)) func(context.Context, io.Writer) (float64, error) {
	return func(ctx context.Context, log io.Writer) (float64, error) {
		ratios := make([]float64, b.Runs)
		for i := range ratios {
			var v [2]float64
			for k := range v {
				at := (i + k) % 2 // which of the two comes first changes
				r := b.load(protocol, load)
				r.Runs = 1
				if base(r); at == 1 {
					changed(r)
				}
				list, err := r.results(ctx, log)
				if err != nil {
					return 0, err
				}
				v[at] = value(&list[0])
			}
			ratios[i] = share(v[1], v[0])
		}
		return median(ratios), nil
	}
}

// memory measures what a waiting message takes that was pushed by itself.
func (b *barsCmd) memory(ctx context.Context, log io.Writer) (float64, error) {
	r := &restartCmd{
		Messages: b.Backlog, Partitions: max(1, b.Backlog/100), Batch: 1, Clients: 256, Payload: 100, Runs: 1, Idle: 2 * time.Second,
		Binary: b.Binary, Scratch: b.Scratch,
	}
	out, err := r.result(ctx, log)
	return out.BytesPerMessage, err
}

// rows measures what failing deliveries leave.
func (b *barsCmd) rows(ctx context.Context, log io.Writer) (float64, error) {
	f := &failingCmd{
		Protocol: "querator", Messages: b.Backlog, Batch: 1, Clients: 32, Seconds: 5 * b.Seconds, Payload: 100, Binary: b.Binary, Scratch: b.Scratch,
	}
	out, err := f.result(ctx, log)
	return out.Ratio, err
}

func (b *barsCmd) run(ctx context.Context, stdout, stderr io.Writer) error {
	if b.Runs < 1 || b.Seconds <= 0 || b.Backlog < 1000 {
		return usagef("want at least 1 run, some time, and a backlog of 1000 messages")
	}
	var list []bar
	var loads []string
	for _, x := range b.bars() {
		if !strings.Contains(x.name, b.Only) {
			continue
		}
		if list = append(list, x); x.load != "" && !strings.Contains(strings.Join(loads, " ")+" ", x.load+" ") {
			loads = append(loads, x.load)
		}
	}
	if len(list) == 0 {
		return usagef("--only: no bar has %q in its name", b.Only)
	}
	floors := map[string]*result{}
	if len(loads) > 0 {
		r := b.load("queen", loads...)
		r.Floors = true
		results, err := r.results(ctx, stderr)
		if err != nil {
			return err
		}
		for i := range results {
			floors[results[i].Load] = &results[i]
		}
	}
	out := make([]barResult, len(list))
	for i, x := range list {
		v, err := x.value(ctx, stderr, floors[x.load])
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		out[i] = barResult{Bar: x.name, Measured: v, Limit: x.limit, AtMost: x.atMost, Reached: x.reached(v)}
	}
	return reportBars(out, b.JSON, stdout, stderr)
}

func (x *bar) reached(v float64) bool {
	if x.atMost {
		return v <= x.limit
	}
	return v >= x.limit
}

// value measures a bar; that of a load is in r.
func (x *bar) value(ctx context.Context, log io.Writer, r *result) (float64, error) {
	switch {
	case r == nil:
		_, _ = fmt.Fprintf(log, "measure %s\n", x.name)
		return x.measure(ctx, log)
	case x.atMost:
		return r.Written, nil
	default:
		return r.Ratio, nil
	}
}

// reportBars writes the results; bars that are missed are an error.
func reportBars(list []barResult, asJSON bool, stdout, stderr io.Writer) error {
	to := stdout
	if asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		if err := e.Encode(list); err != nil {
			return err
		}
		to = stderr
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	missed := 0
	for _, r := range list {
		sign, verdict := "≥", "reached"
		if r.AtMost {
			sign = "≤"
		}
		if !r.Reached {
			verdict = "MISSED"
			missed++
		}
		_, _ = fmt.Fprintf(w, "%s\t%.4g\t%s %.4g\t%s\n", r.Bar, r.Measured, sign, r.Limit, verdict)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d bars were missed", missed, len(list))
	}
	return nil
}
