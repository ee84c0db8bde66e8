package core

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// keepFor is how long a gateway keeps the work that one of those sharing a store does for all: retention, ageing and expiry. Another takes
// it over when it is over, so it is also how long that work stands still after a crash.
const keepFor = 15 * time.Second

// keeper is what an engine knows of who does that work.
type keeper struct {
	id    uuid.UUID
	mine  bool
	until Time
}

// keeps reports whether this engine does the work that need be done once only. Where nobody shares the store it always does.
func (e *Engine) keeps(ctx context.Context, now Time) bool {
	if !e.shared {
		return true
	}
	k := &e.keeper
	renew := k.mine && k.until.Add(-keepFor/2) <= now
	if now < k.until && k.until <= now.Add(keepFor) && !renew {
		return k.mine
	}
	old, err := e.store.Record(ctx, "engine", "keeper")
	if err != nil {
		return false
	}
	id, until := decodeKeeper(old)
	if id != k.id && now < until && until <= now.Add(keepFor) {
		k.mine, k.until = false, until
		return false
	}
	until = now.Add(keepFor)
	if err := e.store.PutRecord(ctx, "engine", "keeper", old, encodeKeeper(k.id, until)); err != nil {
		k.mine, k.until = false, now.Add(time.Second) // another was quicker
		return false
	}
	k.mine, k.until = true, until
	return true
}

func encodeKeeper(id uuid.UUID, until Time) []byte {
	return binary.BigEndian.AppendUint64(id[:], uint64(until)) //nolint:gosec // a time is never negative
}

// decodeKeeper reads a record; one that it does not understand is nobody's.
func decodeKeeper(b []byte) (id uuid.UUID, until Time) {
	if len(b) != len(id)+8 {
		return uuid.Nil, 0
	}
	copy(id[:], b)
	return id, Time(binary.BigEndian.Uint64(b[len(id):])) //nolint:gosec // as it was written
}
