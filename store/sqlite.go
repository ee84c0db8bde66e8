package store

import (
	"context"
	"fmt"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/sqlite"
)

// openSQLite opens the embedded store in dir.
func openSQLite(ctx context.Context, dir string, o Options) (core.Store, error) {
	s, err := sqlite.Open(ctx, dir, sqlite.Options{Logger: o.Logger})
	if err != nil {
		// Not "return s, err": a nil *sqlite.Store in a core.Store is not nil.
		return nil, fmt.Errorf("store in %s: %w", dir, err)
	}
	return s, nil
}
