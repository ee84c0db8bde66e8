package blackbox

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/leasehold/leasehold/adapters/cfqueues"
	"github.com/leasehold/leasehold/adapters/queen"
	"github.com/leasehold/leasehold/adapters/querator"
	"github.com/leasehold/leasehold/core"
)

// Clients are the three protocols' clients of one server.
type Clients struct {
	Target
	Conn     *Conn
	Queen    Queen
	Querator Querator
	Cf       Cfqueues
}

// NewClients returns clients of a target that share one pool of connections.
func NewClients(t Target) *Clients {
	conn := NewConn()
	return &Clients{t, conn, Queen{t.Queen, conn}, Querator{t.Querator, conn}, Cfqueues{t.Cfqueues, conn}}
}

// ProgramOptions configure an InProcess target. The zero value is what the command does.
type ProgramOptions struct {
	Clock    core.Clock
	Queen    queen.Options
	Querator querator.Options
	Cfqueues cfqueues.Options
}

// InProcess serves the three protocols over a store from this process, for options that the
// command has no flag for. It ends with the test, the store included.
func InProcess(tb testing.TB, store core.Store, o ProgramOptions) Target {
	tb.Helper()
	engine, err := core.New(tb.Context(), store, core.Options{Clock: o.Clock, SourceID: querator.SourceID})
	if err != nil {
		tb.Fatal(err)
	}
	serve := func(h http.Handler) string {
		s := httptest.NewServer(h)
		tb.Cleanup(s.Close)
		return s.URL
	}
	tb.Cleanup(func() {
		if err := engine.Shutdown(context.Background()); err != nil {
			tb.Errorf("shut down: %v", err)
		}
		if err := store.Close(); err != nil {
			tb.Errorf("close store: %v", err)
		}
	})
	return Target{
		Queen:    serve(queen.New(engine, o.Queen)),
		Querator: serve(querator.New(engine, o.Querator)),
		Cfqueues: serve(cfqueues.New(engine, o.Cfqueues)),
	}
}
