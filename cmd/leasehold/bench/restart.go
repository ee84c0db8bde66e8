package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// restartCmd measures what a full store costs a server that starts on it.
type restartCmd struct {
	Messages   int           `default:"1000000" help:"Messages that wait in the store."`
	Partitions int           `default:"10000" help:"Partitions that they are spread over."`
	Batch      int           `default:"1" help:"Messages per push; 1 is the dearest for the index."`
	Clients    int           `default:"256" help:"Producers that fill the store."`
	Payload    int           `default:"100" help:"Bytes per message."`
	Runs       int           `default:"5" help:"Starts, of which the median is shown."`
	Idle       time.Duration `default:"2s" help:"Time that a server is given to come to rest before its memory is read."`
	Binary     string        `help:"Program to start instead of this one." placeholder:"FILE" type:"path"`
	Scratch    string        `help:"Folder for the store, on the disk to be measured. Default: the system's." placeholder:"DIR" type:"path"`
	JSON       bool          `name:"json" help:"Write JSON."`
}

// frugal makes the collector run so often that memory resident is close to
// what is in use.
var frugal = []string{"GOGC=10"}

// restartResult is the report. Sizes are bytes, times seconds.
type restartResult struct {
	Messages    int     `json:"messages"`
	Partitions  int     `json:"partitions"`
	Batch       int     `json:"batch"`
	FillSeconds float64 `json:"fill_seconds"`
	StoreBytes  int64   `json:"store_bytes"`
	// RSSEmpty is a server on an empty store, RSSFilled the one that took all
	// messages in, RSSReady one that has just started on them.
	RSSEmpty  int64 `json:"rss_empty_bytes"`
	RSSFilled int64 `json:"rss_filled_bytes"`
	RSSReady  int64 `json:"rss_ready_bytes"`
	// ReadySeconds is from the start of the process until it serves.
	ReadySeconds      float64 `json:"ready_seconds"`
	ReadyMax          float64 `json:"ready_max_seconds"`
	EmptyReadySeconds float64 `json:"empty_ready_seconds"`
	// RSSTouched and RSSControl are servers that have delivered a message of
	// every partition: of the full store, and of one with one message each.
	RSSTouched      int64   `json:"rss_touched_bytes"`
	RSSControl      int64   `json:"rss_control_bytes"`
	TouchSeconds    float64 `json:"touch_seconds"`
	BytesPerMessage float64 `json:"bytes_per_waiting_message"`
}

func (r *restartCmd) run(ctx context.Context, stdout, stderr io.Writer) error {
	out, err := r.result(ctx, stderr)
	if err != nil {
		return err
	}
	if r.JSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(out)
	}
	return out.print(stdout)
}

// result measures; log is told how it goes.
func (r *restartCmd) result(ctx context.Context, log io.Writer) (out restartResult, err error) {
	if r.Messages < 2*r.Partitions || r.Partitions < 1 || r.Batch < 1 || r.Batch > 1000 || r.Clients < 1 || r.Runs < 1 || r.Payload < 2 {
		return out, usagef("want at least 1 of everything, two messages per partition, and at most 1000 messages per push")
	}
	scratch, err := os.MkdirTemp(r.Scratch, "leasehold-bench-")
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	m := &restart{cmd: r, log: log, out: restartResult{Messages: r.Messages, Partitions: r.Partitions, Batch: r.Batch}}
	err = m.measure(ctx, filepath.Join(scratch, "full"), filepath.Join(scratch, "control"))
	return m.out, err
}

// restart is one run of the command.
type restart struct {
	cmd *restartCmd
	log io.Writer
	out restartResult
}

func (m *restart) plan(dir string, env ...string) serverPlan {
	return serverPlan{binary: m.cmd.Binary, dir: dir, protocol: "queen", env: env}
}

func (m *restart) measure(ctx context.Context, full, control string) error {
	for _, dir := range []string{full, control} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	if err := m.fill(ctx, control, m.cmd.Partitions, nil); err != nil {
		return err
	}
	began := time.Now()
	if err := m.fill(ctx, full, m.cmd.Messages, &m.out.RSSFilled); err != nil {
		return err
	}
	m.out.FillSeconds = time.Since(began).Seconds()
	var err error
	if m.out.StoreBytes, err = size(full); err != nil {
		return err
	}
	if err := m.start(ctx, full); err != nil {
		return err
	}
	if _, m.out.RSSControl, err = m.touch(ctx, control); err != nil {
		return err
	}
	if m.out.TouchSeconds, m.out.RSSTouched, err = m.touch(ctx, full); err != nil {
		return err
	}
	m.out.BytesPerMessage = float64(m.out.RSSTouched-m.out.RSSControl) / float64(m.cmd.Messages-m.cmd.Partitions)
	return nil
}

// fill starts a server on a new store, pushes n messages over all partitions
// and ends it. rss receives its memory before the end.
func (m *restart) fill(ctx context.Context, dir string, n int, rss *int64) error {
	_, _ = fmt.Fprintf(m.log, "push %d messages to %d partitions\n", n, m.cmd.Partitions)
	c, err := startServer(ctx, m.plan(dir))
	if err != nil {
		return err
	}
	if rss != nil {
		m.out.EmptyReadySeconds = c.took.Seconds()
		u, _ := c.process().usage()
		m.out.RSSEmpty = u.rss
	}
	err = m.push(c.addr, n)
	if rss != nil {
		time.Sleep(m.cmd.Idle)
		u, _ := c.process().usage()
		*rss = u.rss
	}
	return errors.Join(err, c.stop())
}

// push spreads n messages evenly over all partitions.
func (m *restart) push(addr string, n int) error {
	s := m.spec(addr)
	next := 0
	clients := make([]*client, m.cmd.Clients)
	for i := range clients {
		cl := newProducer(queen{}, s, i, m.cmd.Clients)
		cl.more = func() bool {
			cl.current().push.partition = uint64(next / s.batch % s.partitions) //nolint:gosec // not negative
			next += s.batch
			return next-s.batch < n
		}
		clients[i] = cl
	}
	_, err := pushAll(driverAuto, clients)
	return err
}

func (m *restart) spec(addr string) *spec {
	return &spec{host: addr, queue: "restart", batch: m.cmd.Batch, payload: m.cmd.Payload, partitions: m.cmd.Partitions, groups: 1}
}

// start measures how long a server takes to serve a store.
func (m *restart) start(ctx context.Context, dir string) error {
	var took, rss []float64
	for i := range m.cmd.Runs {
		c, err := startServer(ctx, m.plan(dir))
		if err != nil {
			return err
		}
		u, _ := c.process().usage()
		took, rss = append(took, c.took.Seconds()), append(rss, float64(u.rss))
		_, _ = fmt.Fprintf(m.log, "start %d of %d: ready in %.3f s, %.0f MB\n", i+1, m.cmd.Runs, c.took.Seconds(), float64(u.rss)/1e6)
		if err := c.stop(); err != nil {
			return err
		}
	}
	m.out.ReadySeconds, m.out.RSSReady = median(took), int64(median(rss))
	for _, t := range took {
		m.out.ReadyMax = max(m.out.ReadyMax, t)
	}
	return nil
}

// touch takes one message from every partition and returns how long that took
// and the memory afterwards.
func (m *restart) touch(ctx context.Context, dir string) (seconds float64, rss int64, err error) {
	c, err := startServer(ctx, m.plan(dir, frugal...))
	if err != nil {
		return 0, 0, err
	}
	const clients = 32
	began := time.Now()
	failures := make([]error, clients)
	var done sync.WaitGroup
	for i := range clients {
		done.Go(func() {
			cn := newConn(c.addr)
			defer cn.close()
			for p := i; p < m.cmd.Partitions && failures[i] == nil; p += clients {
				path := fmt.Sprintf("/api/v1/pop/queue/restart/partition/p%0*d?batch=1&autoAck=true", partitionDigits, p)
				failures[i] = call(cn, bare(m.spec(c.addr), "GET", path), 200)
			}
		})
	}
	done.Wait()
	seconds = time.Since(began).Seconds()
	time.Sleep(m.cmd.Idle)
	u, _ := c.process().usage()
	return seconds, u.rss, errors.Join(errors.Join(failures...), c.stop())
}

// size is what the files below a folder hold.
func size(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}

func (r *restartResult) print(to io.Writer) error {
	const mb = 1e6
	_, err := fmt.Fprintf(to, `messages waiting          %d in %d partitions, pushed %d at a time in %.1f s
store on disk             %.0f MB
start, empty store        %.3f s, %.0f MB resident
start, full store         %.3f s (longest %.3f s), %.0f MB resident
resident after the fill   %.0f MB
one message taken of each %.1f s
  resident then           %.0f MB (of a store with one message each: %.0f MB; both with GOGC=10)
per waiting message       %.1f bytes
`, r.Messages, r.Partitions, r.Batch, r.FillSeconds, float64(r.StoreBytes)/mb,
		r.EmptyReadySeconds, float64(r.RSSEmpty)/mb, r.ReadySeconds, r.ReadyMax, float64(r.RSSReady)/mb,
		float64(r.RSSFilled)/mb, r.TouchSeconds, float64(r.RSSTouched)/mb, float64(r.RSSControl)/mb, r.BytesPerMessage)
	return err
}
