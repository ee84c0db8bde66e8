package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/core"
)

// The SQLSTATEs that are looked at one by one.
const (
	stateUnique       = "23505"
	stateReadOnly     = "25006"
	stateSerialize    = "40001"
	stateDeadlock     = "40P01"
	stateDiskFull     = "53100"
	stateNoDatabase   = "3D000"
	stateNoSchema     = "3F000"
	stateNoTable      = "42P01"
	stateCanceled     = "57014"
	classCorrupted    = "XX"
	classConnection   = "08"
	classIntervention = "57"
	classResources    = "53"
	classSystem       = "58"
)

// classify gives an error of the database its core code. Nothing was stored when it is CodeUnavailable.
func classify(op string, err error) error {
	if err == nil {
		return nil
	}
	var coded *core.Error
	if errors.As(err, &coded) {
		return err
	}
	return core.WrapError(codeOf(err), op, err)
}

// unconnected reports whether no connection could be made. What ends an attempt is often a deadline, of the attempt's own and not the caller's.
func unconnected(err error) bool {
	var e *pgconn.ConnectError
	return errors.As(err, &e)
}

func codeOf(err error) core.Code {
	var e *pgconn.PgError
	var coded *core.Error
	switch {
	case errors.As(err, &coded):
		return coded.Code
	case errors.As(err, &e):
		if e.ConstraintName == "commits_pkey" { // somebody looked for this commit and gave it up
			return core.CodeUnavailable
		}
		if withoutID(e) {
			return core.CodeConflict
		}
		return codeOfState(e.Code)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && !unconnected(err):
		return core.CodeCanceled
	default: // no connection, or it broke
		return core.CodeUnavailable
	}
}

func codeOfState(state string) core.Code {
	switch state {
	case stateUnique, stateSerialize, stateDeadlock:
		return core.CodeConflict
	case stateReadOnly: // it is a standby, or set so for now: another server, or this one later, can be written
		return core.CodeUnavailable
	case stateDiskFull:
		return core.CodeFull
	case stateNoTable, stateNoSchema:
		return core.CodeFormat
	case stateCanceled, stateNoDatabase:
		return core.CodeUnavailable
	}
	switch {
	case strings.HasPrefix(state, classCorrupted):
		return core.CodeFormat
	case strings.HasPrefix(state, classConnection), strings.HasPrefix(state, classIntervention), strings.HasPrefix(state, classResources),
		strings.HasPrefix(state, classSystem):
		return core.CodeUnavailable
	default:
		return core.CodeInternal
	}
}

// again reports whether a transaction that failed so may be run once more: nothing of it was stored.
func again(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == stateDeadlock || e.Code == stateSerialize)
}

// fatal reports whether the server ended the connection with an error, or there was no answer at all.
func fatal(err error) bool {
	var e *pgconn.PgError
	return !errors.As(err, &e) || e.Severity == "FATAL" || e.Severity == "PANIC"
}

// lost reports whether a commit that failed so may have taken place.
func lost(err error) bool { return fatal(err) }

// broken reports whether the connection is to blame, so that another one may do better.
func broken(err error) bool {
	var coded *core.Error
	if err == nil || ours(err) || errors.As(err, &coded) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return fatal(err) || stateOf(err) == stateReadOnly
}

func stateOf(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
