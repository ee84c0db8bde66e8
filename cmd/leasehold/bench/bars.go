package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// barsCmd measures everything that the embedded store is held to, each on a server and a store of its own.
type barsCmd struct {
	Store    string        `help:"PostgreSQL to measure in place of the embedded store." placeholder:"URL"`
	Original string        `help:"Program of the original Querator to compare with (conformance/originals/querator); the lines have 'original' in their names." placeholder:"FILE" type:"path"`
	Only     []string      `help:"Measure only the bars whose name has this in it; several are alternatives." placeholder:"TEXT" sep:"none"`
	Runs     int           `default:"5" help:"Rounds, of which the medians are shown."`
	Seconds  float64       `default:"2" help:"Length of each measurement."`
	Warmup   time.Duration `default:"1s" help:"Unmeasured time before the first round of a load."`
	Backlog  int           `default:"1000000" help:"Messages of the large backlogs."`
	Binary   string        `help:"Program to start instead of this one." placeholder:"FILE" type:"path"`
	Scratch  string        `help:"Folder for scratch files, on the disk to be measured. Default: the system's." placeholder:"DIR" type:"path"`
	JSON     bool          `name:"json" help:"Write the results as a list of JSON objects; the table then goes to standard error."`
}

// bar is a figure that a store is held to.
type bar struct {
	name string
	// limit is the first bar: the least that is enough, or with atMost the most.
	limit  float64
	atMost bool
	// scaled is a limit in messages per second that was set on a machine of which floorThen tells: a slower one is held to less.
	scaled bool
	// of is what load has to be measured with, value what is held to the limit; without them
	// measure is called.
	of      *setting
	load    string
	value   func(*result) float64
	measure func(ctx context.Context, log io.Writer) (float64, error)
}

// setting is how some loads are measured, all on one server.
type setting struct {
	protocol string
	change   func(*runCmd)
	// start starts what else is needed, and returns what ends it; nil for nothing.
	start func(context.Context, *runCmd) (stop func() error, err error)
}

// barResult is a bar's line of the report.
type barResult struct {
	Bar      string  `json:"bar"`
	Measured float64 `json:"measured"`
	Limit    float64 `json:"limit"`
	AtMost   bool    `json:"at_most"`
	Reached  bool    `json:"reached"`
}

// bars are what is measured, in order.
func (b *barsCmd) bars() []bar {
	list := b.embedded()
	if b.Store != "" {
		list = b.postgres()
	}
	if b.Original != "" {
		list = append(list, b.original()...)
	}
	return list
}

func cpuOf(r *result) float64   { return r.CPU }
func rateOf(r *result) float64  { return r.PerSecond }
func ratioOf(r *result) float64 { return r.Ratio }

// load is the command that measures loads on a server of its own.
func (b *barsCmd) load(protocol string, loads ...string) *runCmd {
	return &runCmd{
		Protocol: protocol, Spawn: true, Store: b.Store, Binary: b.Binary, Loads: loads, Runs: b.Runs, Seconds: b.Seconds, Warmup: b.Warmup,
		Payload: 100, Queues: 1, Groups: 1, FillBatch: 100, Encoding: "json", Driver: driverAuto, Gateways: 1, Account: "bench", Scratch: b.Scratch,
	}
}

// pairWarmup is the warm-up of each half of a pair, which is measured once.
const pairWarmup = 500 * time.Millisecond

// pair measures a load in two settings in turns and returns the median of what the second showed, of the first.
func (b *barsCmd) pair(protocol, load string, value func(*result) float64, base, changed func(*runCmd)) func(context.Context, io.Writer) (float64, error) {
	return func(ctx context.Context, log io.Writer) (float64, error) {
		ratios := make([]float64, b.Runs)
		for i := range ratios {
			var v [2]float64
			for k := range v {
				at := (i + k) % 2 // which of the two comes first changes
				r := b.load(protocol, load)
				r.Runs, r.Warmup = 1, min(b.Warmup, pairWarmup)
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
			_, _ = fmt.Fprintf(log, "pair %d of %d: %.4g, of %.4g (%.2f ×)\n", i+1, b.Runs, v[1], v[0], ratios[i])
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
		Protocol: "querator", Messages: b.Backlog, Batch: 1, Clients: 32, Seconds: 5 * b.Seconds, Payload: 100,
		Store: b.Store, Binary: b.Binary, Scratch: b.Scratch,
	}
	out, err := f.result(ctx, log)
	return out.Ratio, err
}

func (b *barsCmd) run(ctx context.Context, stdout, stderr io.Writer) error {
	if b.Runs < 1 || b.Seconds <= 0 || b.Backlog < 1000 {
		return usagef("want at least 1 run, some time, and a backlog of 1000 messages")
	}
	if b.Store != "" && !strings.HasPrefix(b.Store, "postgres") {
		return usagef("--store: want the URL of a PostgreSQL, or nothing for the embedded store")
	}
	list := slices.DeleteFunc(b.bars(), func(x bar) bool {
		return len(b.Only) > 0 && !slices.ContainsFunc(b.Only, func(text string) bool { return strings.Contains(x.name, text) })
	})
	if len(list) == 0 {
		return usagef("--only: no bar has %q in its name", b.Only)
	}
	measured, err := b.loads(ctx, list, stderr)
	if err != nil {
		return err
	}
	out := make([]barResult, len(list))
	for i, x := range list {
		var v float64
		if x.measure != nil {
			_, _ = fmt.Fprintf(stderr, "measure %s\n", x.name)
			if v, err = x.measure(ctx, stderr); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
		} else {
			v = x.value(measured[x.of][x.load])
		}
		if x.scaled {
			x.limit *= measured[x.of][x.load].slower()
		}
		out[i] = barResult{Bar: x.name, Measured: v, Limit: x.limit, AtMost: x.atMost, Reached: x.reached(v)}
	}
	return reportBars(out, b.JSON, stdout, stderr)
}

// measuredLoads are results by setting and load.
type measuredLoads map[*setting]map[string]*result

// loads measures the loads that bars look at, each once, and writes their tables to log.
func (b *barsCmd) loads(ctx context.Context, list []bar, log io.Writer) (measuredLoads, error) {
	measured := measuredLoads{}
	for _, x := range list {
		if x.of == nil || measured[x.of] != nil {
			continue
		}
		var names []string
		for _, y := range list {
			if y.of == x.of && !slices.Contains(names, y.load) {
				names = append(names, y.load)
			}
		}
		results, err := b.with(ctx, x.of, names, log)
		if err != nil {
			return nil, err
		}
		if err := table(results, log); err != nil {
			return nil, err
		}
		measured[x.of] = map[string]*result{}
		for i := range results {
			measured[x.of][results[i].Load] = &results[i]
		}
	}
	return measured, nil
}

// with measures loads in a setting.
func (b *barsCmd) with(ctx context.Context, s *setting, names []string, log io.Writer) (results []result, err error) {
	r := b.load(s.protocol, names...)
	if s.start != nil {
		stop, err := s.start(ctx, r)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	if s.change != nil {
		s.change(r)
	}
	return r.results(ctx, log)
}

func (x *bar) reached(v float64) bool {
	if x.atMost {
		return v <= x.limit
	}
	return v >= x.limit
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
