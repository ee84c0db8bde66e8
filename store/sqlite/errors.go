package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/leasehold/leasehold/core"
)

// classify gives an error of the database or the file system its core code.
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

func codeOf(err error) core.Code {
	var e *sqlite.Error
	switch {
	case errors.As(err, &e):
		return codeOfResult(e.Code() & 0xff)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return core.CodeCanceled
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return core.CodeReadOnly
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return core.CodeFull
	default:
		return core.CodeUnavailable
	}
}

func codeOfResult(primary int) core.Code {
	switch primary {
	case sqlite3.SQLITE_FULL:
		return core.CodeFull
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return core.CodeReadOnly
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT:
		return core.CodeFormat
	case sqlite3.SQLITE_CONSTRAINT:
		return core.CodeConflict
	case sqlite3.SQLITE_TOOBIG:
		return core.CodeTooLarge
	default:
		return core.CodeUnavailable
	}
}
