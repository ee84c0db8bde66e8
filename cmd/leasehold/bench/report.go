package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// pair is what one round measured; nil and 0 for what it did not.
type pair struct {
	server, floor, compare *outcome
	durable                float64
	// reference is requests per second of a handler that is the same for every load.
	reference float64
}

// String is the line of progress.
func (p pair) String() string {
	s := fmt.Sprintf("%.0f/s", p.server.perSecond)
	if p.floor != nil {
		s += fmt.Sprintf(", HTTP floor %.0f/s (%.0f%%), durability floor %.0f/s",
			p.floor.perSecond, 100*share(p.server.perSecond, p.floor.perSecond), p.durable)
	}
	if p.reference > 0 {
		s += fmt.Sprintf(", reference %.0f/s", p.reference)
	}
	if p.compare != nil {
		s += fmt.Sprintf(", other server %.0f/s (%.2f ×)", p.compare.perSecond, share(p.server.perSecond, p.compare.perSecond))
	}
	if p.server.failures > 0 {
		s += fmt.Sprintf(", %d failures: %v", p.server.failures, p.server.failure)
	}
	if p.server.empty > 0 {
		s += fmt.Sprintf(", %d empty answers", p.server.empty)
	}
	return s
}

// result is a load's line of the report: medians over the rounds. Members
// without a value were not measured.
type result struct {
	Load       string  `json:"load"`
	Protocol   string  `json:"protocol"`
	Batch      int     `json:"batch"`
	Clients    int     `json:"clients"`
	Payload    int     `json:"payload_bytes"`
	Partitions int     `json:"partitions"`
	Queues     int     `json:"queues"`
	Groups     int     `json:"groups"`
	Backlog    int     `json:"backlog"`
	IDs        bool    `json:"ids,omitempty"`
	Delay      int     `json:"delay_seconds,omitempty"`
	Rate       float64 `json:"rate,omitempty"`
	Runs       int     `json:"runs"`
	Seconds    float64 `json:"seconds"`

	PerSecond       float64 `json:"per_second"`
	PushedPerSecond float64 `json:"pushed_per_second,omitempty"`
	// Spread is (highest − lowest) / median of PerSecond over the rounds.
	Spread float64 `json:"spread"`
	P50    float64 `json:"p50_ms"`
	P99    float64 `json:"p99_ms"`

	SettleP50 float64 `json:"settle_p50_ms,omitempty"`
	SettleP99 float64 `json:"settle_p99_ms,omitempty"`

	// DeliverP50 and DeliverP99 are from when a push was due until a consumer had its messages.
	DeliverP50 float64 `json:"deliver_p50_ms,omitempty"`
	DeliverP99 float64 `json:"deliver_p99_ms,omitempty"`

	FloorPerSecond float64 `json:"floor_per_second,omitempty"`
	FloorSpread    float64 `json:"floor_spread,omitempty"`
	// Ratio is the median of the rounds' ratios, which is not quite the ratio
	// of the medians.
	Ratio    float64 `json:"ratio,omitempty"`
	RatioMin float64 `json:"ratio_min,omitempty"`
	RatioMax float64 `json:"ratio_max,omitempty"`
	FloorP50 float64 `json:"floor_p50_ms,omitempty"`
	FloorP99 float64 `json:"floor_p99_ms,omitempty"`
	FloorCPU float64 `json:"floor_cpu_us_per_message,omitempty"`

	DurablePerSecond float64 `json:"durability_floor_per_second,omitempty"`
	DurableRatio     float64 `json:"durability_ratio,omitempty"`

	// ReferencePerSecond is what the HTTP floor of single pushes did in requests per second, by which bars tell how fast the machine is.
	ReferencePerSecond float64 `json:"reference_per_second,omitempty"`

	CPU     float64 `json:"cpu_us_per_message,omitempty"`
	Written float64 `json:"bytes_written_per_message,omitempty"`
	RSS     int64   `json:"rss_bytes,omitempty"`
	OwnCPU  float64 `json:"generator_cpu_us_per_message,omitempty"`
	// OwnRequestCPU is what the generator used for a request and its answer.
	OwnRequestCPU float64 `json:"generator_cpu_us_per_request,omitempty"`
	// DatabaseCPU is of all processes of a PostgreSQL that runs on this machine.
	DatabaseCPU float64 `json:"database_cpu_us_per_message,omitempty"`

	ComparePerSecond float64 `json:"compare_per_second,omitempty"`
	CompareRatio     float64 `json:"compare_ratio,omitempty"`
	CompareP50       float64 `json:"compare_p50_ms,omitempty"`
	CompareP99       float64 `json:"compare_p99_ms,omitempty"`
	CompareCPU       float64 `json:"compare_cpu_us_per_message,omitempty"`
	CompareWritten   float64 `json:"compare_bytes_written_per_message,omitempty"`
	CompareRSS       int64   `json:"compare_rss_bytes,omitempty"`
	CompareFailures  int64   `json:"compare_failures,omitempty"`

	// Empty counts claims that found nothing, Failures refused requests.
	Empty    int64 `json:"empty"`
	Failures int64 `json:"failures"`

	kind  kind
	pairs []pair
}

func newResult(c *runCmd, l load) *result {
	return &result{
		Load: l.String(), Protocol: c.Protocol, Batch: l.batch, Clients: l.clients, Payload: c.Payload,
		Partitions: c.Partitions, Queues: c.Queues, Groups: c.Groups, Backlog: c.Backlog, IDs: c.IDs, Delay: c.Delay,
		Rate: c.Rate, Runs: c.Runs, Seconds: c.Seconds, kind: l.kind,
	}
}

// add takes a round in and brings the medians up to date.
func (r *result) add(p pair) {
	r.pairs = append(r.pairs, p)
	server := func(p pair) *outcome { return p.server }
	r.PerSecond, r.Spread = r.rate(server)
	r.P50, r.P99 = r.latency(server)
	if r.kind == kindBoth {
		r.PushedPerSecond = r.median(func(p pair) float64 { return p.server.pushedPerSecond })
		r.SettleP50 = r.median(func(p pair) float64 { return p.server.settle.quantile(.5) })
		r.SettleP99 = r.median(func(p pair) float64 { return p.server.settle.quantile(.99) })
	}
	r.CPU, r.Written, r.RSS = r.use(server)
	if r.Rate > 0 {
		r.DeliverP50 = r.median(func(p pair) float64 { return p.server.deliver.quantile(.5) })
		r.DeliverP99 = r.median(func(p pair) float64 { return p.server.deliver.quantile(.99) })
	}
	r.DatabaseCPU = r.median(func(p pair) float64 { return p.server.dbMicros })
	r.OwnRequestCPU = r.median(func(p pair) float64 { return p.server.ownPerRequest })
	r.OwnCPU = r.median(func(p pair) float64 { return p.server.ownMicros })
	r.Empty += p.server.empty
	r.Failures += p.server.failures
	r.ReferencePerSecond = r.median(func(p pair) float64 { return p.reference })
	if p.floor != nil {
		r.addFloor()
	}
	if p.compare != nil {
		compare := func(p pair) *outcome { return p.compare }
		r.ComparePerSecond, _ = r.rate(compare)
		r.CompareP50, r.CompareP99 = r.latency(compare)
		r.CompareCPU, r.CompareWritten, r.CompareRSS = r.use(compare)
		r.CompareRatio = r.median(func(p pair) float64 { return share(p.server.perSecond, p.compare.perSecond) })
		r.CompareFailures += p.compare.failures
	}
}

// addFloor brings what compares with the floors up to date.
func (r *result) addFloor() {
	floor := func(p pair) *outcome { return p.floor }
	r.FloorPerSecond, r.FloorSpread = r.rate(floor)
	r.FloorP50, r.FloorP99 = r.latency(floor)
	r.FloorCPU, _, _ = r.use(floor)
	r.DurablePerSecond = r.median(func(p pair) float64 { return p.durable })
	r.DurableRatio = r.median(func(p pair) float64 { return share(p.server.perSecond, p.durable) })
	ratio := func(p pair) float64 { return share(p.server.perSecond, p.floor.perSecond) }
	r.Ratio = r.median(ratio)
	all := r.values(ratio)
	r.RatioMin, r.RatioMax = slices.Min(all), slices.Max(all)
}

func (r *result) values(of func(pair) float64) []float64 {
	all := make([]float64, 0, len(r.pairs))
	for _, p := range r.pairs {
		all = append(all, of(p))
	}
	return all
}

func (r *result) median(of func(pair) float64) float64 { return median(r.values(of)) }

// rate is the median of messages per second, and its spread.
func (r *result) rate(of func(pair) *outcome) (perSecond, spread float64) {
	all := r.values(func(p pair) float64 { return of(p).perSecond })
	perSecond = median(all)
	return perSecond, share(slices.Max(all)-slices.Min(all), perSecond)
}

// latency is the median of the rounds' quantiles in ms.
func (r *result) latency(of func(pair) *outcome) (p50, p99 float64) {
	p50 = r.median(func(p pair) float64 { return of(p).latency(r.kind).quantile(.5) })
	return p50, r.median(func(p pair) float64 { return of(p).latency(r.kind).quantile(.99) })
}

// use is the median of what the server used, 0 where it is not known.
func (r *result) use(of func(pair) *outcome) (cpu, written float64, rss int64) {
	cpu = r.median(func(p pair) float64 { return of(p).cpuMicros })
	written = r.median(func(p pair) float64 { return of(p).written })
	return cpu, written, int64(r.median(func(p pair) float64 { return float64(of(p).rss) }))
}

// median sorts a copy; of an even number it is the mean of the two in the middle.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// share is a / b, 0 where there is no b.
func share(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// report writes the table, and the JSON if wanted.
func report(results []result, asJSON bool, stdout, stderr io.Writer) error {
	if !asJSON {
		return table(results, stdout)
	}
	if err := table(results, stderr); err != nil {
		return err
	}
	e := json.NewEncoder(stdout)
	e.SetIndent("", "  ")
	return e.Encode(results)
}

// table writes a line per load; a dash is what was not measured.
func table(results []result, to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	compared := slices.ContainsFunc(results, func(r result) bool { return r.ComparePerSecond > 0 })
	columns := []string{"load", "msg/s", "spread", "floor/s", "of floor", "(min-max)", "durable/s", "p50 ms", "p99 ms", "CPU µs/msg", "floor CPU", "own CPU", "own/request", "written/msg", "RSS MB", "failed"}
	stored := slices.ContainsFunc(results, func(r result) bool { return r.DatabaseCPU > 0 })
	if stored {
		columns = append(columns, "DB CPU")
	}
	delivered := slices.ContainsFunc(results, func(r result) bool { return r.DeliverP50 > 0 })
	if delivered {
		columns = append(columns, "delivery p50", "p99")
	}
	if compared {
		columns = append(columns, "other/s", "× other", "other p99", "other CPU", "other RSS MB")
	}
	_, _ = fmt.Fprintln(w, strings.Join(columns, "\t")+"\t")
	for _, r := range results {
		cells := []string{
			r.Load, number(r.PerSecond, "%.0f"), number(100*r.Spread, "%.0f%%"), number(r.FloorPerSecond, "%.0f"), number(100*r.Ratio, "%.0f%%"),
			number(100*r.RatioMin, "%.0f") + "-" + number(100*r.RatioMax, "%.0f%%"), number(r.DurablePerSecond, "%.0f"),
			number(r.P50, "%.2f"), number(r.P99, "%.2f"), number(r.CPU, "%.1f"), number(r.FloorCPU, "%.1f"), number(r.OwnCPU, "%.1f"), number(r.OwnRequestCPU, "%.1f"),
			number(r.Written, "%.0f B"), number(float64(r.RSS)/1e6, "%.0f"), strconv.FormatInt(r.Failures, 10),
		}
		if stored {
			cells = append(cells, number(r.DatabaseCPU, "%.1f"))
		}
		if delivered {
			cells = append(cells, number(r.DeliverP50, "%.2f"), number(r.DeliverP99, "%.2f"))
		}
		if compared {
			cells = append(cells, number(r.ComparePerSecond, "%.0f"), number(r.CompareRatio, "%.2f"),
				number(r.CompareP99, "%.2f"), number(r.CompareCPU, "%.1f"), number(float64(r.CompareRSS)/1e6, "%.0f"))
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	}
	return w.Flush()
}

// number formats a measured value; 0 is one that was not.
func number(v float64, format string) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}
