package querator_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/querator"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/memory"
)

// failingStore is a store whose writes fail while an error is set.
type failingStore struct {
	core.Store

	fail atomic.Pointer[error]
}

func (s *failingStore) Append(ctx context.Context, p core.AppendParams) ([]core.Placed, error) {
	if err := s.fail.Load(); err != nil {
		return nil, *err
	}
	return s.Store.Append(ctx, p)
}

func (s *failingStore) Update(ctx context.Context, p core.UpdateParams, fn func(core.Tx) (*core.ChangeSet, error)) ([]core.Placed, error) {
	if err := s.fail.Load(); err != nil {
		return nil, *err
	}
	return s.Store.Update(ctx, p, fn)
}

// Outcome tells that no lost commit took place.
func (s *failingStore) Outcome(context.Context, uuid.UUID) (bool, error) { return false, nil }

func TestNothingThatIsNotStoredIsAcknowledged(t *testing.T) {
	for code, want := range map[core.Code]string{
		core.CodeUnavailable: `{"code":454,"code_text":"Retry Request","message":"internal error, try your request again"}`,
		core.CodeFull:        `{"code":453,"code_text":"Request Failed","message":"request failed; the server's storage is full"}`,
		core.CodeReadOnly:    `{"code":453,"code_text":"Request Failed","message":"request failed; the server's storage is read only"}`,
		core.CodeInternal:    `{"code":500,"code_text":"Internal Service Error","message":"Internal Error"}`,
	} {
		t.Run(code.String(), func(t *testing.T) {
			var log bytes.Buffer
			store := &failingStore{Store: memory.New()}
			clock := coretest.New(coretest.Start)
			engine, err := core.New(t.Context(), store, core.Options{Clock: clock, SourceID: querator.SourceID})
			require.NoError(t, err)
			t.Cleanup(func() { _ = engine.Shutdown(context.Background()) })
			f := &fixture{t: t, clock: clock, engine: engine, handler: querator.New(engine, querator.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})}
			f.create("q")
			f.ok("/v1/queue.produce", produceBody(2))
			_, ids, _ := f.lease("q", 1)
			var broken error = &core.Error{Code: code, Op: "write", Item: -1, Err: errors.New("the secret cause")}

			store.fail.Store(&broken)
			produced := f.post("/v1/queue.produce", produceBody(1))
			completed := f.post("/v1/queue.complete", completeBody("q", ids["r0"]))
			store.fail.Store(nil)

			exact(t, want, produced.body)
			exact(t, want, completed.body)
			require.Equal(t, code == core.CodeInternal, bytes.Contains(log.Bytes(), []byte("the secret cause")), log.String())
			f.ok("/v1/queue.complete", completeBody("q", ids["r0"]))
			refs, _, _ := f.lease("q", 10)
			require.Equal(t, []string{"r1"}, refs, "the failed produce left nothing")
		})
	}
}
