package enginetest

import (
	"context"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// Sharing is a store that more than one engine can use: Another returns it as the next one sees it. A rig over such a store has two
// engines and sends each call to the other one than the call before, so that every rule is tested across gateways too.
type Sharing interface {
	core.Store
	Another() core.Store
}

// engines are the engines of a rig.
type engines struct {
	all []*core.Engine
	n   atomic.Uint64
}

func (s *engines) next() *core.Engine { return s.all[s.n.Add(1)%uint64(len(s.all))] }

func (s *engines) Now() core.Time { return s.all[0].Now() }

func (s *engines) Secret() []byte { return s.all[0].Secret() }

func (s *engines) Wake() {
	for _, e := range s.all {
		e.Wake()
	}
}

func (s *engines) Shutdown(ctx context.Context) (err error) {
	for _, e := range s.all {
		if failed := e.Shutdown(ctx); failed != nil {
			err = failed
		}
	}
	return err
}

// Pause holds a queue at every engine.
func (s *engines) Pause(ctx context.Context, queue string, on bool) (err error) {
	for _, e := range s.all {
		if _, failed := e.Queue(ctx, queue); failed == nil { // and so it has heard of it
			failed = e.Pause(ctx, queue, on)
			if failed != nil {
				err = failed
			}
		} else {
			err = failed
		}
	}
	return err
}

// QueueStats counts what waits at every engine.
func (s *engines) QueueStats(ctx context.Context, queue, group string) (core.QueueStats, error) {
	out, err := s.next().QueueStats(ctx, queue, group)
	if err != nil {
		return out, err
	}
	out.ClaimsWaiting, out.PushesWaiting, out.SettlesWaiting, out.InFlight = 0, 0, 0, 0
	for _, e := range s.all {
		one, err := e.QueueStats(ctx, queue, group)
		if err != nil {
			return out, err
		}
		out.ClaimsWaiting += one.ClaimsWaiting
		out.PushesWaiting += one.PushesWaiting
		out.SettlesWaiting += one.SettlesWaiting
		out.InFlight += one.InFlight
	}
	return out, nil
}

func (s *engines) Push(ctx context.Context, x core.PushParams) ([]core.Pushed, error) {
	return s.next().Push(ctx, x)
}

func (s *engines) Claim(ctx context.Context, x core.ClaimParams) (core.Claimed, error) {
	return s.next().Claim(ctx, x)
}

func (s *engines) Ack(ctx context.Context, acks []core.Ack) ([]core.Acked, error) {
	return s.next().Ack(ctx, acks)
}

func (s *engines) Seek(ctx context.Context, x core.SeekParams) (int, error) {
	return s.next().Seek(ctx, x)
}

func (s *engines) DeleteQueue(ctx context.Context, name string, evenInUse bool) error {
	return s.next().DeleteQueue(ctx, name, evenInUse)
}

func (s *engines) DeadLetters(ctx context.Context, f core.DeadLetterFilter) ([]core.DeadLetter, int64, error) {
	return s.next().DeadLetters(ctx, f)
}

func (s *engines) Purge(ctx context.Context, name string) error { return s.next().Purge(ctx, name) }

func (s *engines) SettleItems(ctx context.Context, x core.SettleItemsParams) error {
	return s.next().SettleItems(ctx, x)
}

func (s *engines) SettleMessages(ctx context.Context, queue string, items []core.MessageSettlement) ([]core.MessageSettled, error) {
	return s.next().SettleMessages(ctx, queue, items)
}

func (s *engines) DeleteGroup(ctx context.Context, queue, group string, keep bool) (core.DeletedGroup, error) {
	return s.next().DeleteGroup(ctx, queue, group, keep)
}

func (s *engines) Transact(ctx context.Context, x core.TransactParams) (core.Transacted, error) {
	return s.next().Transact(ctx, x)
}

func (s *engines) Extend(ctx context.Context, x core.ExtendParams) (core.Extended, error) {
	return s.next().Extend(ctx, x)
}

func (s *engines) CreateQueue(ctx context.Context, q core.Queue, partitions int) (core.Queue, error) {
	return s.next().CreateQueue(ctx, q, partitions)
}

func (s *engines) ConfigureQueue(ctx context.Context, name string, change func(*core.Queue) error) (core.Queue, error) {
	return s.next().ConfigureQueue(ctx, name, change)
}

func (s *engines) Clear(ctx context.Context, x core.ClearParams) error { return s.next().Clear(ctx, x) }

func (s *engines) ReplayDeadLetters(ctx context.Context, ids []uuid.UUID, rename func(*core.DeadLetter) string) ([]core.Replayed, error) {
	return s.next().ReplayDeadLetters(ctx, ids, rename)
}

func (s *engines) Registrations(ctx context.Context, queue string) ([]core.Registration, error) {
	return s.next().Registrations(ctx, queue)
}

func (s *engines) Partitions(ctx context.Context, name string) ([]core.Partition, error) {
	return s.next().Partitions(ctx, name)
}

func (s *engines) Items(ctx context.Context, x core.ItemsParams) ([]core.Item, error) {
	return s.next().Items(ctx, x)
}

func (s *engines) Import(ctx context.Context, queue string, ordinal int32, items []core.ImportItem) ([]core.Imported, error) {
	return s.next().Import(ctx, queue, ordinal, items)
}

func (s *engines) Queue(ctx context.Context, name string) (core.Queue, error) {
	return s.next().Queue(ctx, name)
}
