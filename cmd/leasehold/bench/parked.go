package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

// parkedCmd measures a server with many consumers that wait for nothing.
type parkedCmd struct {
	Polls   int           `default:"10000" help:"Long polls to park, each on a connection of its own."`
	Queues  int           `default:"100" help:"Queues that they wait for."`
	Idle    time.Duration `default:"10s" help:"Time over which the CPU of the idle server is measured."`
	Wait    time.Duration `default:"2s" help:"Time that the server is given to park the polls, and to wake those that it should and no others."`
	Binary  string        `help:"Program to start instead of this one." placeholder:"FILE" type:"path"`
	Scratch string        `help:"Folder for the store. Default: the system's." placeholder:"DIR" type:"path"`
	JSON    bool          `name:"json" help:"Write JSON."`
}

const (
	// pollTimeout is longer than the whole measurement, in ms on the wire.
	pollTimeout = 10 * time.Minute
	// pollBuffer is enough for the answer of a poll.
	pollBuffer = 2048
	// dialers bounds how many connections are opened at once.
	dialers = 64
)

// parkedResult is the report.
type parkedResult struct {
	Polls        int     `json:"polls"`
	Queues       int     `json:"queues"`
	RSSBefore    int64   `json:"rss_before_bytes"`
	RSSParked    int64   `json:"rss_parked_bytes"`
	BytesPerPoll float64 `json:"bytes_per_poll"`
	// IdleCPU is the share of one core that the server used while idle.
	IdleCPU float64 `json:"idle_cpu_share"`
	// Pushed messages should each have woken one poll of their queue.
	Pushed int `json:"pushed"`
	Woken  int `json:"woken"`
	Wrong  int `json:"woken_wrongly"`
	// WakeP50 and WakeMax are from the push until the poll's answer.
	WakeP50 float64 `json:"wake_p50_ms"`
	WakeMax float64 `json:"wake_max_ms"`
	// StopSeconds is how long the server took to answer all polls and end.
	StopSeconds float64 `json:"stop_seconds"`
}

// wake is the answer that a poll got.
type wake struct {
	queue int // that it waited for
	at    time.Time
	wrong bool // the answer has no message of that queue
	err   error
}

func (p *parkedCmd) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	if p.Polls < 1 || p.Queues < 1 || p.Queues > p.Polls {
		return usagef("want at least one queue, and one poll for each")
	}
	scratch, err := os.MkdirTemp(p.Scratch, "leasehold-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	c, err := startServer(ctx, serverPlan{binary: p.Binary, dir: scratch, protocol: "queen"})
	if err != nil {
		return err
	}
	m := &parked{cmd: p, host: c.addr, log: stderr, wakes: make(chan wake, p.Polls), out: parkedResult{Polls: p.Polls, Queues: p.Queues}}
	err = m.measure(c.process())
	began := time.Now()
	err = errors.Join(err, c.stop())
	m.out.StopSeconds = time.Since(began).Seconds()
	m.polls.Wait()
	if err != nil {
		return err
	}
	if p.JSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(m.out)
	}
	return m.out.print(stdout)
}

// parked is one run of the command.
type parked struct {
	cmd   *parkedCmd
	host  string
	log   io.Writer
	polls sync.WaitGroup
	wakes chan wake
	out   parkedResult
}

func (m *parked) spec(queue int) *spec {
	return &spec{host: m.host, queue: fmt.Sprintf("parked-%d", queue), batch: 1, payload: 100, partitions: 1, groups: 1}
}

func (m *parked) measure(p *process) error {
	control := newConn(m.host)
	defer control.close()
	for q := range m.cmd.Queues {
		if err := (queen{}).create(control, m.spec(q)); err != nil {
			return err
		}
	}
	before, _ := p.usage()
	if err := m.park(); err != nil {
		return err
	}
	time.Sleep(m.cmd.Wait) // for the last of them to be parked
	start, _ := p.usage()
	time.Sleep(m.cmd.Idle)
	end, _ := p.usage()
	m.out.RSSBefore, m.out.RSSParked = before.rss, end.rss
	m.out.BytesPerPoll = float64(end.rss-before.rss) / float64(m.cmd.Polls)
	m.out.IdleCPU = (end.cpu - start.cpu).Seconds() / m.cmd.Idle.Seconds()
	select {
	case w := <-m.wakes:
		return fmt.Errorf("a poll ended before anything was pushed: %w", w.err)
	default:
	}
	return m.push(control)
}

// park opens the connections and sends a poll on each.
func (m *parked) park() error {
	_, _ = fmt.Fprintf(m.log, "park %d long polls on %d queues\n", m.cmd.Polls, m.cmd.Queues)
	var opening sync.WaitGroup
	failures := make([]error, dialers)
	for d := range dialers {
		opening.Go(func() {
			for i := d; i < m.cmd.Polls && failures[d] == nil; i += dialers {
				c := newSmallConn(m.host, pollBuffer)
				if failures[d] = c.dial(); failures[d] == nil {
					m.polls.Go(func() { m.poll(c, i%m.cmd.Queues) })
				}
			}
		})
	}
	opening.Wait()
	return errors.Join(failures...)
}

// poll waits for one answer.
func (m *parked) poll(c *conn, queue int) {
	defer c.close()
	s := m.spec(queue)
	request := bare(s, "GET", "/api/v1/pop/queue/"+s.queue+"?batch=1&autoAck=true&wait=true&timeout="+strconv.Itoa(int(pollTimeout.Milliseconds())))
	status, body, err := c.do(request)
	w := wake{queue: queue, at: time.Now(), err: err}
	w.wrong = status != 200 || !bytes.Contains(body, []byte(`"queue":"`+s.queue+`"`))
	m.wakes <- w
}

// push pushes single messages to some queues and several at once to another,
// then counts who wakes.
func (m *parked) push(c *conn) error {
	pushes := map[int]int{}
	for q := range min(10, m.cmd.Queues-1) {
		pushes[q] = 1
	}
	if many := min(5, m.cmd.Polls/m.cmd.Queues); many > 0 {
		pushes[m.cmd.Queues-1] = many
	}
	sent := map[int]time.Time{}
	for q, n := range pushes {
		s := m.spec(q)
		s.batch = n
		sent[q] = time.Now()
		if err := call(c, queen{}.push(s, 0).next(), 201); err != nil {
			return err
		}
		m.out.Pushed += n
	}
	late := time.After(m.cmd.Wait)
	var took histogram
	for {
		select {
		case w := <-m.wakes:
			m.out.Woken++
			if pushes[w.queue]--; w.err != nil || w.wrong || pushes[w.queue] < 0 {
				m.out.Wrong++
				continue
			}
			took.add(w.at.Sub(sent[w.queue]))
		case <-late:
			m.out.WakeP50, m.out.WakeMax = took.quantile(.5), took.quantile(1)
			return nil
		}
	}
}

func (r *parkedResult) print(to io.Writer) error {
	verdict := "exactly those that should"
	if r.Woken != r.Pushed || r.Wrong > 0 {
		verdict = "NOT those that should"
	}
	_, err := fmt.Fprintf(to, `parked             %d polls on %d queues
resident           %.0f MB, before %.0f MB: %.1f kB per poll, connection included
idle CPU           %.2f%% of a core
pushed             %d messages
woken              %d polls, %d of them wrongly: %s
push to answer     %.1f ms, at most %.1f ms
server ended in    %.2f s, all polls answered
`, r.Polls, r.Queues, float64(r.RSSParked)/1e6, float64(r.RSSBefore)/1e6, r.BytesPerPoll/1e3,
		100*r.IdleCPU, r.Pushed, r.Woken, r.Wrong, verdict, r.WakeP50, r.WakeMax, r.StopSeconds)
	return err
}
