package bench

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// appendFor has clients append segments to the partitions in rotation, encoded before, as the engine does it: what comes in during one
// commit goes into the next.
func (l *local) appendFor(ctx context.Context, parts []core.Partition, load load, payload int, length time.Duration) (float64, error) {
	body := jsonText(payload)
	var segment core.NewSegment
	now := l.engine.Now()
	for range load.batch {
		m := core.Message{Payload: body, MessageHeader: core.MessageHeader{ID: core.NewMessageID(now), CreatedAt: now}}
		segment.Add(&m)
	}
	segment.Know = -1
	a := &appender{l: l, ctx: ctx, work: make(chan appended, load.clients)}
	var running sync.WaitGroup
	running.Go(a.run)
	rate, err := repeat(load.clients, length, func(client, round int) (int, error) {
		one := segment
		one.Partition = parts[(client*apart+round)%len(parts)].Key
		done := make(chan error, 1)
		a.work <- appended{one, done}
		return load.batch, <-done
	})
	close(a.work)
	running.Wait()
	return rate, err
}

// appender commits what several callers hand in.
type appender struct {
	l    *local
	ctx  context.Context //nolint:containedctx // of the measurement
	work chan appended
}

// appended is a segment whose caller waits for its commit.
type appended struct {
	segment core.NewSegment
	done    chan error
}

func (a *appender) run() {
	for first := range a.work {
		batch := []appended{first}
		for more := len(a.work); more > 0; more-- {
			batch = append(batch, <-a.work)
		}
		segments := make([]core.NewSegment, len(batch))
		for i := range batch {
			segments[i] = batch[i].segment
		}
		placed, err := a.l.store.Append(a.ctx, core.AppendParams{Commit: uuid.New(), Now: a.l.engine.Now(), Segments: segments})
		for i := range batch {
			if err == nil && placed[i].First == 0 {
				err = errors.New("a segment was left out")
			}
			batch[i].done <- err
		}
	}
}

// repeat has clients do something again and again for that long, each from its round 0 on, and returns over how many messages that was
// per second.
func repeat(clients int, length time.Duration, do func(client, round int) (messages int, err error)) (float64, error) {
	began := time.Now()
	end := began.Add(length)
	counts, failures := make([]int, clients), make([]error, clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for round := 0; failures[i] == nil && time.Now().Before(end); round++ {
				var n int
				n, failures[i] = do(i, round)
				counts[i] += n
			}
		})
	}
	all.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / time.Since(began).Seconds(), errors.Join(failures...)
}
