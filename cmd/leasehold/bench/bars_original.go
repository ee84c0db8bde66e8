package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// originalBacklog is what waits when a settling load begins: the original slows down with
// every message that does.
const originalBacklog = 20_000

// original are the bars of the comparison with the original Querator, which keeps everything in memory.
func (b *barsCmd) original() []bar {
	backlog := func(load string) bar {
		return bar{
			name: fmt.Sprintf("rate with a backlog of %d, of 5000, %s, unlike the original Querator", b.Backlog, load), limit: noSlower,
			measure: b.pair("querator", load, rateOf, func(r *runCmd) { r.Backlog = 5000 }, func(r *runCmd) { r.Backlog = b.Backlog }),
		}
	}
	list := b.besides("", "")
	list = append(list, b.besides(", both in memory", "memory:")...)
	return append(list, backlog("both:1x32"), backlog("both:100x8"))
}

// besides are the bars of one store of ours next to the original. In memory, where nothing but the end of the process frees what is pushed
// and not settled, pushing and settling each have servers of their own.
func (b *barsCmd) besides(how, store string) []bar {
	ratio := func(r *result) float64 { return r.CompareRatio }
	at := func() *setting {
		return &setting{protocol: "querator", start: b.startOriginal, change: func(r *runCmd) { r.Store = store }}
	}
	push, settle := at(), at()
	return []bar{
		{name: "produce 1x32, of the original Querator" + how, limit: 1.3, of: push, load: "push:1x32", value: ratio},
		{name: "produce 100x8, of the original Querator" + how, limit: .9, of: push, load: "push:100x8", value: ratio},
		{name: "lease and complete 1x32, of the original Querator" + how, limit: 4, of: settle, load: "settle:1x32", value: ratio},
		{name: "lease and complete 100x8, of the original Querator" + how, limit: 8, of: settle, load: "settle:100x8", value: ratio},
	}
}

// noSlower is the least ratio of two rates that are to be the same: medians of five such pairs differ by so much.
const noSlower = .95

// startOriginal starts the original on a free port and has a command compare with it.
func (b *barsCmd) startOriginal(ctx context.Context, r *runCmd) (stop func() error, err error) {
	cmd := exec.CommandContext(ctx, b.Original, "--addr", "127.0.0.1:0") //nolint:gosec // the program that the user named
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("--original: %w", err)
	}
	c := &child{cmd: cmd, exited: make(chan struct{})}
	line, err := bufio.NewReader(out).ReadString('\n')
	words := strings.Fields(line)
	if err == nil && (len(words) != 4 || words[0] != "--compare" || words[2] != "--compare-pid") {
		err = fmt.Errorf("it says %q", line)
	}
	if err == nil {
		r.ComparePID, err = strconv.Atoi(words[3])
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it has ended")
		}
		return nil, errors.Join(fmt.Errorf("--original: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	go c.wait()
	r.Compare, r.Backlog = words[1], originalBacklog
	return c.stop, nil
}
