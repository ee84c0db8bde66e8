package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Prune deletes the commits below a transaction now.
func (s *Store) Prune(below int64) { s.prune(context.Background(), below) }

// SetFault makes f decide at each point of a commit whether it fails there.
func (s *Store) SetFault(f func(point string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Trace returns options under which a tracer sees every statement.
func (o Options) Trace(t pgx.QueryTracer) Options {
	o.tracer = t
	return o
}

// Plans are the settings of a session that concern plans.
var Plans = plans
