package core

import (
	"context"

	"github.com/google/uuid"
)

// named returns a queue by name, nil when there is none: one that is not known is looked for among what other gateways made. Whether they
// made it is not known, and an error, while the store cannot be asked.
func (e *Engine) named(ctx context.Context, name string) (*entry, error) {
	return found(ctx, e, func() *entry { return e.cat.byName(name) })
}

// queue is named where a queue must exist.
func (e *Engine) queue(ctx context.Context, op, name string) (*entry, error) {
	en, err := e.named(ctx, name)
	if err == nil && en == nil {
		err = noQueue(op, name)
	}
	return en, err
}

// found looks something up, and again after a look at what other gateways did.
func found[T any](ctx context.Context, e *Engine, get func() *T) (*T, error) {
	if v := get(); v != nil || !e.shared {
		return v, nil
	}
	if err := e.look(ctx); err != nil {
		return nil, err
	}
	return get(), nil
}

// Refresh returns when the engine knows what other gateways had committed at the call. A request that would be refused for what a queue's
// options say is looked at again after it, since another gateway may have changed them a moment ago. Where nobody shares the store it does nothing.
func (e *Engine) Refresh(ctx context.Context) error { return e.look(ctx) }

// identified is named for a queue's id.
func (e *Engine) identified(ctx context.Context, id uuid.UUID) (*entry, error) {
	return found(ctx, e, func() *entry { return e.cat.byID(id) })
}

// partition is named for a partition's id.
func (e *Engine) partition(ctx context.Context, id uuid.UUID) (*part, error) {
	return found(ctx, e, func() *part { return e.cat.part(id) })
}

// partNamed is named for a partition of a queue.
func (e *Engine) partNamed(ctx context.Context, en *entry, name string) (*part, error) {
	return found(ctx, e, func() *part { return en.partition(name) })
}

// adopt remembers a lease that another gateway gave out, so that acknowledgements under it find their messages.
func (e *Engine) adopt(ctx context.Context, lease uuid.UUID, key RowKey) error {
	if !e.shared || e.leases.has(lease, key.Partition) {
		return nil
	}
	batches, _, err := e.store.Batches(ctx, key)
	if err != nil {
		return err
	}
	for i := range batches {
		b := &batches[i]
		if b.State != BatchLeased || !b.Exclusive || b.Lease != lease {
			continue
		}
		segs, err := e.store.Headers(ctx, HeadersParams{Partition: key.Partition, From: b.First, To: b.Last})
		if err != nil {
			return err
		}
		var refs []leaseRef
		for j := range segs {
			for k := range segs[j].Messages {
				if off := segs[j].First + int64(k); b.Pending.Has(off) {
					refs = append(refs, leaseRef{segs[j].Messages[k].ID, segs[j].Messages[k].TransactionID, off})
				}
			}
		}
		e.leases.add(lease, key, b.Until, refs)
	}
	return nil
}

// anew runs f again where it met a queue that was deleted under it and gateways share the store: f finds the queue by its name, which may
// have a new bearer that another gateway made, or none.
func anew[T any](e *Engine, f func() (T, error)) (T, error) {
	for n := 0; ; n++ {
		out, err := f()
		if !e.shared || CodeOf(err) != CodeDeleted || n == 2 {
			return out, err
		}
	}
}
