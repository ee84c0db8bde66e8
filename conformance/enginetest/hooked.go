package enginetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leasehold/leasehold/core"
)

// hooked is a store whose commits a test can hold up or fail.
type hooked struct {
	core.Store
	mu sync.Mutex
	// onAppend and onUpdate fail a commit when they return an error; nothing is stored then.
	onAppend func(core.AppendParams) error
	onUpdate func(*core.ChangeSet) error
	// afterAppend replaces the answer of an append that took place.
	afterAppend func() error
	// onHeaders fails a read of headers.
	onHeaders func(core.HeadersParams) error
	// onRead comes before each read of messages.
	onRead func()
	// held makes commits that are durable wait for it to be closed before they return; reached tells that one does.
	held    chan struct{}
	reached chan struct{}

	appends, updates atomic.Int64
}

// hook makes every rig of a test case run over a store with hooks.
func hook(open Open, into **hooked) Open {
	return func(t *testing.T) core.Store {
		*into = &hooked{Store: open(t)}
		return *into
	}
}

func (h *hooked) set(f func(*hooked)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h)
}

// hold makes the next commits wait once they are durable. It returns a channel that receives when one waits, and the release.
func (h *hooked) hold() (reached <-chan struct{}, release func()) {
	held, at := make(chan struct{}), make(chan struct{}, 1000)
	h.set(func(h *hooked) { h.held, h.reached = held, at })
	return at, func() {
		h.set(func(h *hooked) { h.held, h.reached = nil, nil })
		close(held)
	}
}

func (h *hooked) linger() {
	h.mu.Lock()
	held, reached := h.held, h.reached
	h.mu.Unlock()
	if held != nil {
		reached <- struct{}{}
		<-held
	}
}

// Append implements core.Log.
func (h *hooked) Append(ctx context.Context, p core.AppendParams) ([]core.Placed, error) {
	h.appends.Add(1)
	h.mu.Lock()
	f, after := h.onAppend, h.afterAppend
	h.mu.Unlock()
	if f != nil {
		if err := f(p); err != nil {
			return nil, err
		}
	}
	defer h.linger()
	placed, err := h.Store.Append(ctx, p)
	if after != nil && err == nil {
		if err = after(); err != nil {
			return nil, err
		}
	}
	return placed, err
}

// Update implements core.Ledger.
func (h *hooked) Update(ctx context.Context, p core.UpdateParams, fn func(core.Tx) (*core.ChangeSet, error)) ([]core.Placed, error) {
	h.updates.Add(1)
	h.mu.Lock()
	f := h.onUpdate
	h.mu.Unlock()
	defer h.linger()
	return h.Store.Update(ctx, p, func(tx core.Tx) (*core.ChangeSet, error) {
		cs, err := fn(tx)
		if err == nil && f != nil {
			err = f(cs)
		}
		return cs, err
	})
}

// Headers implements core.Log.
func (h *hooked) Headers(ctx context.Context, p core.HeadersParams) ([]core.SegmentHeader, error) {
	h.mu.Lock()
	f := h.onHeaders
	h.mu.Unlock()
	if f != nil {
		if err := f(p); err != nil {
			return nil, err
		}
	}
	return h.Store.Headers(ctx, p)
}

// Read implements core.Log.
func (h *hooked) Read(ctx context.Context, p core.ReadParams) ([]core.Message, error) {
	h.mu.Lock()
	f := h.onRead
	h.mu.Unlock()
	if f != nil {
		f()
	}
	return h.Store.Read(ctx, p)
}
