package core

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// The kinds of records that hold what stream processors keep: registrations by name, names by id, and state by query, partition and key.
const (
	recordStreamQuery = "stream-query"
	recordStreamName  = "stream-name"
	recordStreamState = "stream-state"
)

// wipeRecords is how many records one change set deletes at most.
const wipeRecords = 1000

// StreamQuery is the registration of a stream processor.
type StreamQuery struct {
	// ID is for life; state belongs to it.
	ID uuid.UUID `json:"id"`
	// Name is unique.
	Name string `json:"name"`
	// Source and Sink are names of queues; Sink may be empty.
	Source string `json:"source"`
	Sink   string `json:"sink,omitempty"`
	// Hash names the processor's configuration; state made under another one is of no use.
	Hash string `json:"hash"`
}

// StreamRegistered is the outcome of Engine.RegisterStream.
type StreamRegistered struct {
	StreamQuery
	// Fresh tells that there was no such query before.
	Fresh bool
	// Wiped tells that the state was deleted because the hash differed.
	Wiped bool
	// Mismatch tells that the hash differs and nothing was changed.
	Mismatch bool
}

// RegisterStream registers a query by its name, once. One that is registered under another hash is left alone, unless reset is
// set: then its state is deleted first.
func (e *Engine) RegisterStream(ctx context.Context, q StreamQuery, reset bool) (StreamRegistered, error) {
	ctx = context.WithoutCancel(ctx)
	for {
		have, raw, err := e.streamByName(ctx, q.Name)
		if err != nil {
			return StreamRegistered{}, err
		}
		out := StreamRegistered{StreamQuery: q}
		switch {
		case raw == nil:
			out.ID, out.Fresh = uuid.New(), true
		case have.Hash == q.Hash:
			out.ID = have.ID
		case !reset:
			return StreamRegistered{StreamQuery: have, Mismatch: true}, nil
		default:
			out.ID, out.Wiped = have.ID, true
			for more := true; more; {
				if more, err = e.wipe(ctx, recordStreamState, string(have.ID[:])); err != nil {
					return StreamRegistered{}, err
				}
			}
		}
		err = e.putStream(ctx, out.StreamQuery, raw)
		if CodeOf(err) != CodeConflict || err == nil {
			return out, err
		}
	}
}

// putStream writes a registration over what was read; CodeConflict when somebody was faster.
func (e *Engine) putStream(ctx context.Context, q StreamQuery, old []byte) error {
	value, err := json.Marshal(q)
	if err != nil {
		return WrapError(CodeInternal, "register stream", err)
	}
	if old == nil {
		// The id first: a registration without one could never be found by it.
		if err := e.store.PutRecord(ctx, recordStreamName, string(q.ID[:]), nil, []byte(q.Name)); err != nil {
			return WrapError(CodeInternal, "register stream", err)
		}
	}
	err = e.store.PutRecord(ctx, recordStreamQuery, q.Name, old, value)
	return WrapError(CodeInternal, "register stream", err)
}

func (e *Engine) streamByName(ctx context.Context, name string) (q StreamQuery, raw []byte, err error) {
	raw, err = e.store.Record(ctx, recordStreamQuery, name)
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &q)
	}
	return q, raw, WrapError(CodeInternal, "read stream", err)
}

// Stream returns the query with an id, false when there is none.
func (e *Engine) Stream(ctx context.Context, id uuid.UUID) (StreamQuery, bool, error) {
	name, err := e.store.Record(ctx, recordStreamName, string(id[:]))
	if err != nil || name == nil {
		return StreamQuery{}, false, WrapError(CodeInternal, "read stream", err)
	}
	q, raw, err := e.streamByName(ctx, string(name))
	return q, err == nil && raw != nil && q.ID == id, err
}

// StateRecord returns the record of one key of a query's state on a partition, to go with a Cycle; a nil value deletes it.
func StateRecord(query, partition uuid.UUID, key string, value []byte) Record {
	return Record{Kind: recordStreamState, Name: statePrefix(query, partition) + key, Value: value}
}

func statePrefix(query, partition uuid.UUID) string { return string(query[:]) + string(partition[:]) }

// StateEntry is one key of a query's state.
type StateEntry struct {
	Key       string
	Value     []byte
	UpdatedAt Time
}

// StreamState returns the state of a query on a partition by key: that of the keys named, or all when none is, whose keys begin with prefix.
func (e *Engine) StreamState(ctx context.Context, query, partition uuid.UUID, keys []string, prefix string) ([]StateEntry, error) {
	var out []StateEntry
	base := statePrefix(query, partition)
	if len(keys) == 0 {
		err := e.eachRecord(ctx, recordStreamState, base+prefix, func(r *Record) {
			out = append(out, StateEntry{r.Name[len(base):], r.Value, r.At})
		})
		return out, err
	}
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	for _, key := range keys {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		found, err := e.record(ctx, recordStreamState, base+key)
		if err != nil {
			return nil, err
		}
		if found != nil {
			out = append(out, StateEntry{key, found.Value, found.At})
		}
	}
	return out, nil
}

// record returns a record with its time, nil when there is none.
func (e *Engine) record(ctx context.Context, kind, name string) (*Record, error) {
	list, err := e.store.ListRecords(ctx, ListRecordsParams{Kind: kind, Prefix: name, Limit: 1})
	if err != nil {
		return nil, WrapError(CodeInternal, "read record", err)
	}
	// The name itself is the least of those that begin with it.
	if len(list) == 0 || cmp.Compare(list[0].Name, name) != 0 {
		return nil, nil
	}
	return &list[0], nil
}

// eachRecord calls f with every record of a kind whose name begins with prefix, by name.
func (e *Engine) eachRecord(ctx context.Context, kind, prefix string, f func(*Record)) error {
	p := ListRecordsParams{Kind: kind, Prefix: prefix, Limit: wipeRecords}
	for {
		list, err := e.store.ListRecords(ctx, p)
		if err != nil {
			return WrapError(CodeInternal, "list records", err)
		}
		for i := range list {
			f(&list[i])
		}
		if len(list) < p.Limit {
			return nil
		}
		p.After = list[len(list)-1].Name
	}
}

// wipe deletes records of a kind whose names begin with prefix, a bounded number in one commit, and reports whether there may be more.
// It runs between the commits of cycles, so that one stands before it or behind it.
func (e *Engine) wipe(ctx context.Context, kind, prefix string) (more bool, err error) {
	cerr := e.call(func() {
		var list []Record
		if list, err = e.store.ListRecords(ctx, ListRecordsParams{Kind: kind, Prefix: prefix, Limit: wipeRecords}); err == nil {
			more, err = len(list) == wipeRecords, e.deleteRecords(ctx, list)
		}
	})
	if cerr != nil {
		return false, cerr
	}
	return more, WrapError(CodeInternal, "delete records", err)
}

// deleteRecords deletes records in one commit.
func (e *Engine) deleteRecords(ctx context.Context, list []Record) error {
	cs := &ChangeSet{}
	for i := range list {
		cs.Records = append(cs.Records, Record{Kind: list[i].Kind, Name: list[i].Name})
	}
	if cs.Empty() {
		return nil
	}
	_, err := e.store.Update(ctx, UpdateParams{Commit: newCommit(), Now: e.clock.Now()}, func(Tx) (*ChangeSet, error) { return cs, nil })
	return err
}
