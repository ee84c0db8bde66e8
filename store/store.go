// Package store opens the store that a URL names.
package store

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/memory"
	"github.com/leasehold/leasehold/store/postgres"
)

// Options are what a store needs beside its URL.
type Options struct {
	// Dir is the data directory: where the embedded store lies when the URL
	// names no place of its own.
	Dir string
	// Schema is the PostgreSQL schema; "" means "leasehold", or what ?schema= of the URL says.
	Schema string
	// Logger receives the store's log. Default: discarded.
	Logger *slog.Logger
}

// Open opens the store that url names:
//
//	""             the embedded store in the data directory
//	sqlite:PATH    the embedded store in the directory PATH; also a bare PATH
//	memory:        nothing is kept beyond the process
//	postgres://…   a PostgreSQL database that any number of servers share; also postgresql://…
//
// Anything else is CodeInvalid. The embedded store makes its directory; one
// that another server uses is CodeLocked, one that a newer release wrote or
// that is damaged CodeFormat, one that cannot be written CodeReadOnly, a database that does not answer CodeUnavailable.
func Open(ctx context.Context, url string, o Options) (core.Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	scheme, rest, ok := strings.Cut(url, ":")
	switch {
	case url == "":
		return openSQLite(ctx, o.Dir, o)
	case !ok, filepath.IsAbs(url):
		return openSQLite(ctx, url, o)
	case scheme == "sqlite":
		dir := strings.TrimPrefix(rest, "//")
		if dir == "" {
			return nil, core.Errorf(core.CodeInvalid, "open store", "sqlite: names no directory; leave --store out for the data directory")
		}
		return openSQLite(ctx, dir, o)
	case scheme == "memory":
		o.Logger.WarnContext(ctx, "messages are kept in memory only and end with the process")
		return memory.New(), nil
	case scheme == "postgres", scheme == "postgresql":
		return postgres.Open(ctx, url, postgres.Options{Logger: o.Logger, Schema: o.Schema})
	default:
		// The URL itself may hold a password, so only its scheme is shown.
		return nil, core.Errorf(core.CodeInvalid, "open store", "unknown kind of store %q: want sqlite:PATH, postgres://HOST/DATABASE or memory:", scheme)
	}
}
