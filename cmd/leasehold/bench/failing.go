package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store"
)

// failingCmd measures how much delivery state a queue leaves in the store when every delivery fails.
type failingCmd struct {
	Protocol string  `default:"querator" enum:"querator,cfqueues" help:"Protocol to speak: querator or cfqueues."`
	Messages int     `default:"1000000" help:"Messages that wait at the beginning."`
	Batch    int     `default:"1" help:"Messages per claim."`
	Clients  int     `default:"32" help:"Consumers, each of which gives back as failed whatever it gets."`
	Seconds  float64 `default:"20" help:"Time for which they do so."`
	Payload  int     `default:"100" help:"Bytes per message."`
	Binary   string  `help:"Program to start instead of this one." placeholder:"FILE" type:"path"`
	Store    string  `help:"Store of the server; of a PostgreSQL a scratch schema. Default: SQLite in the scratch folder." placeholder:"URL"`
	Scratch  string  `help:"Folder for the store, on the disk to be measured. Default: the system's." placeholder:"DIR" type:"path"`
	JSON     bool    `name:"json" help:"Write JSON."`
}

// failingResult is the report.
type failingResult struct {
	Protocol string `json:"protocol"`
	Messages int    `json:"messages"`
	Batch    int    `json:"batch"`
	Clients  int    `json:"clients"`
	// Failed counts deliveries that were given back, PerSecond per second.
	Failed    int64   `json:"failed"`
	PerSecond float64 `json:"per_second"`
	CPU       float64 `json:"cpu_us_per_message"`
	// Waiting counts the messages that wait for another delivery, Rows the rows that say so.
	Waiting int64   `json:"waiting_again"`
	Rows    int64   `json:"batch_rows"`
	Ratio   float64 `json:"rows_per_message"`
}

func (f *failingCmd) run(ctx context.Context, stdout, stderr io.Writer) error {
	out, err := f.result(ctx, stderr)
	if err != nil {
		return err
	}
	if f.JSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(out)
	}
	return out.print(stdout)
}

// result measures; log is told how it goes.
func (f *failingCmd) result(ctx context.Context, log io.Writer) (out failingResult, err error) {
	if f.Messages < f.Clients*f.Batch || f.Clients < 1 || f.Batch < 1 || f.Batch > maxBatch[f.Protocol] || f.Seconds <= 0 || f.Payload < 2 {
		return out, usagef("want at least 1 of everything, a message for each client and at most %d messages per claim", maxBatch[f.Protocol])
	}
	scratch, err := os.MkdirTemp(f.Scratch, "leasehold-bench-")
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	schema := scratchSchema()
	db, err := openDatabase(ctx, f.Store, schema)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, db.close(context.WithoutCancel(ctx))) }()
	if db == nil {
		schema = ""
	}
	out = failingResult{Protocol: f.Protocol, Messages: f.Messages, Batch: f.Batch, Clients: f.Clients}
	queue := fmt.Sprintf("failing-%x", time.Now().UnixNano()&0xffffffff)
	if err := f.fail(ctx, serverPlan{binary: f.Binary, store: f.Store, schema: schema, dir: scratch, protocol: f.Protocol}, queue, &out, log); err != nil {
		return out, err
	}
	return out, f.count(ctx, store.Options{Dir: filepath.Join(scratch, "data"), Schema: schema}, queue, &out)
}

// fail fills a queue of a server of its own and has all deliveries fail for a while.
func (f *failingCmd) fail(ctx context.Context, plan serverPlan, queue string, out *failingResult, log io.Writer) (err error) {
	c, err := startServer(ctx, plan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	d := dialects[f.Protocol]
	s := &spec{
		host: c.addr, queue: queue, fails: true, batch: f.Batch, payload: f.Payload, partitions: 1, groups: 1, account: "bench", run: queue,
	}
	control := newConn(c.addr)
	defer control.close()
	if err := d.create(control, s); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(log, "push %d messages\n", f.Messages)
	full := *s
	full.batch = min(100, maxBatch[f.Protocol])
	if _, err := fill(d, &full, driverAuto, int64(f.Messages)); err != nil {
		return err
	}
	fleet, err := newFleet(d, []*spec{s}, load{kind: kindFail, batch: f.Batch, clients: f.Clients}, watched{servers: []*process{c.process()}}, options{})
	if err != nil {
		return err
	}
	defer fleet.close()
	_, _ = fmt.Fprintf(log, "fail all deliveries for %.0f s\n", f.Seconds)
	o, err := fleet.run(time.Duration(f.Seconds*float64(time.Second)), unlimited)
	if err != nil {
		return err
	}
	out.Failed, out.PerSecond, out.CPU = o.removed, o.perSecond, o.cpuMicros
	return o.failure
}

// count looks into the store that the server left.
func (f *failingCmd) count(ctx context.Context, o store.Options, queue string, out *failingResult) (err error) {
	s, err := store.Open(ctx, f.Store, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	queues, err := s.Queues(ctx)
	if err != nil {
		return err
	}
	for i := range queues {
		if queues[i].Name != queue {
			continue
		}
		rows, err := s.Rows(ctx, core.RowsParams{Queue: queues[i].ID, Group: core.QueueModeGroup})
		if err != nil {
			return err
		}
		for j := range rows {
			out.Rows += rows[j].Batches
			out.Waiting += rows[j].Leased.Messages + rows[j].Waiting.Messages
		}
	}
	out.Ratio = share(float64(out.Rows), float64(out.Waiting))
	return nil
}

func (r *failingResult) print(to io.Writer) error {
	_, err := fmt.Fprintf(to, `failed             %d deliveries, %.0f per second, %.1f µs of CPU each
waiting again      %d of %d messages
rows for them      %d: %.4f per message, one for %.0f
`, r.Failed, r.PerSecond, r.CPU, r.Waiting, r.Messages, r.Rows, r.Ratio, share(float64(r.Waiting), float64(r.Rows)))
	return err
}
