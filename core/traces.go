package core

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// The kinds of records that hold traces: each by its id, and under every address by which it is read.
const (
	recordTrace        = "trace"
	recordTraceMessage = "trace-message"
	recordTraceName    = "trace-name"
)

// traceSeparator ends a text in the name of a record; no text in a trace's address contains it.
const traceSeparator = "\x1f"

// Trace is what a consumer noted about its work on a message.
type Trace struct {
	ID            uuid.UUID       `json:"id"`
	Partition     uuid.UUID       `json:"partition"`
	TransactionID string          `json:"transaction"`
	Group         string          `json:"group"`
	Event         string          `json:"event"`
	Data          json.RawMessage `json:"data"`
	Names         []string        `json:"names,omitempty"`
	At            Time            `json:"at"`
}

// AddTrace stores a trace and returns it with its id and time. Texts in it with the byte 0x1F are CodeInvalid; whether the message
// exists is not asked. It is deleted when it is older than Options.TraceAge.
func (e *Engine) AddTrace(_ context.Context, t Trace) (Trace, error) {
	if strings.Contains(t.TransactionID+strings.Join(t.Names, ""), traceSeparator) {
		return Trace{}, Errorf(CodeInvalid, "trace", "a transaction id or trace name must not contain the byte 0x1F")
	}
	t.At = e.clock.Now()
	t.ID = NewMessageID(t.At)
	t.Names = unique(t.Names)
	// The payload stays byte for byte: it is the last part of the value, behind the rest as JSON.
	data := t.Data
	t.Data = nil
	head, err := json.Marshal(&t)
	if err != nil {
		return Trace{}, WrapError(CodeInternal, "trace", err)
	}
	t.Data = data
	id, message := string(t.ID[:]), messageAddress(t.Partition, t.TransactionID)
	records := []Record{
		{Kind: recordTrace, Name: id, Value: slices.Concat(head, []byte("\n"), data), At: t.At},
		{Kind: recordTraceMessage, Name: message + id, Value: []byte{1}, At: t.At},
	}
	hash := binary.BigEndian.AppendUint64(nil, HashTransaction(message))
	for _, name := range t.Names {
		records = append(records, Record{Kind: recordTraceName, Name: name + traceSeparator + id, Value: hash, At: t.At})
	}
	op := &opReq{bytes: len(data), apply: func(p *pass) error {
		p.cs.Records = append(p.cs.Records, records...)
		return nil
	}}
	return t, e.submit(op)
}

func messageAddress(partition uuid.UUID, transaction string) string {
	return string(partition[:]) + transaction + traceSeparator
}

// unique drops repetitions and keeps the order.
func unique(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// TracesOf returns the traces of a message, oldest first.
func (e *Engine) TracesOf(ctx context.Context, partition uuid.UUID, transaction string) ([]Trace, error) {
	var ids []string
	base := messageAddress(partition, transaction)
	err := e.eachRecord(ctx, recordTraceMessage, base, func(r *Record) { ids = append(ids, r.Name[len(base):]) })
	if err != nil {
		return nil, err
	}
	return e.traces(ctx, ids)
}

// TracesNamed returns traces under a name, newest first, and how many there are in all.
func (e *Engine) TracesNamed(ctx context.Context, name string, limit, offset int) ([]Trace, int, error) {
	var ids []string
	base := name + traceSeparator
	if strings.Contains(name, traceSeparator) {
		return nil, 0, nil
	}
	err := e.eachRecord(ctx, recordTraceName, base, func(r *Record) { ids = append(ids, r.Name[len(base):]) })
	if err != nil {
		return nil, 0, err
	}
	total := len(ids)
	slices.Reverse(ids)
	out, err := e.traces(ctx, page(ids, limit, offset))
	return out, total, err
}

// page cuts a part out of a list.
func page[T any](list []T, limit, offset int) []T {
	list = list[min(max(offset, 0), len(list)):]
	return list[:min(max(limit, 0), len(list))]
}

// traces reads traces by id; those that are gone are left out.
func (e *Engine) traces(ctx context.Context, ids []string) ([]Trace, error) {
	out := make([]Trace, 0, len(ids))
	for _, id := range ids {
		value, err := e.store.Record(ctx, recordTrace, id)
		if err != nil {
			return nil, WrapError(CodeInternal, "read trace", err)
		}
		head, data, ok := bytes.Cut(value, []byte("\n"))
		if !ok {
			continue
		}
		var t Trace
		if err := json.Unmarshal(head, &t); err != nil {
			return nil, WrapError(CodeFormat, "read trace", err)
		}
		t.Data = data
		out = append(out, t)
	}
	return out, nil
}

// TraceName is a name under which there are traces.
type TraceName struct {
	Name string
	// Traces counts them, Messages the messages that they are about.
	Traces, Messages int
	LastSeen         Time
}

// TraceNames returns the names of traces, the one seen last first, and how many there are in all.
func (e *Engine) TraceNames(ctx context.Context, limit, offset int) ([]TraceName, int, error) {
	var out []TraceName
	messages := map[string]bool{}
	err := e.eachRecord(ctx, recordTraceName, "", func(r *Record) {
		name, _, _ := strings.Cut(r.Name, traceSeparator)
		if n := len(out); n == 0 || out[n-1].Name != name {
			out = append(out, TraceName{Name: name})
			clear(messages)
		}
		last := &out[len(out)-1]
		last.Traces++
		messages[string(r.Value)] = true
		last.Messages = len(messages)
		last.LastSeen = max(last.LastSeen, r.At)
	})
	slices.SortStableFunc(out, func(a, b TraceName) int { return cmp.Compare(b.LastSeen, a.LastSeen) })
	return page(out, limit, offset), len(out), err
}

// Bounds of what one sweep does about old records: states that it looks at, and traces that it deletes, so many in one commit.
const (
	agedStates = 100
	agedTraces = 500
	agedRounds = 10
)

// ageRecords deletes traces and stream state that nobody has written for longer than the settings allow.
func (e *Engine) ageRecords(ctx context.Context, now Time) {
	if err := e.ageTraces(ctx, now); err != nil {
		e.log.ErrorContext(ctx, "old traces cannot be deleted", "error", err)
	}
	if err := e.ageStates(ctx, now); err != nil {
		e.log.ErrorContext(ctx, "old stream state cannot be deleted", "error", err)
	}
}

// ageTraces deletes the oldest traces: their ids ascend with time, so that one look tells whether there is anything to do.
func (e *Engine) ageTraces(ctx context.Context, now Time) error {
	for range agedRounds {
		limit := 1
		var old []Record
		for {
			list, err := e.store.ListRecords(ctx, ListRecordsParams{Kind: recordTrace, Limit: limit})
			if err != nil {
				return err
			}
			old = old[:0]
			for i := range list {
				if list[i].At.Add(e.opts.TraceAge) <= now {
					old = append(old, list[i])
				}
			}
			if len(old) == 0 {
				return nil
			}
			if limit == agedTraces {
				break
			}
			limit = agedTraces
		}
		var gone []Record
		for i := range old {
			gone = append(gone, traceRecords(&old[i])...)
		}
		if err := e.deleteRecords(ctx, gone); err != nil || len(old) < agedTraces {
			return err
		}
	}
	return nil
}

// traceRecords returns the names of a trace's records.
func traceRecords(r *Record) []Record {
	out := []Record{{Kind: recordTrace, Name: r.Name}}
	var t Trace
	head, _, _ := bytes.Cut(r.Value, []byte("\n"))
	if json.Unmarshal(head, &t) != nil {
		return out
	}
	out = append(out, Record{Kind: recordTraceMessage, Name: messageAddress(t.Partition, t.TransactionID) + r.Name})
	for _, name := range t.Names {
		out = append(out, Record{Kind: recordTraceName, Name: name + traceSeparator + r.Name})
	}
	return out
}

// ageStates looks at a few states at a time, in turn.
func (e *Engine) ageStates(ctx context.Context, now Time) error {
	list, err := e.store.ListRecords(ctx, ListRecordsParams{Kind: recordStreamState, After: e.agedUpto, Limit: agedStates})
	if err != nil {
		return err
	}
	e.agedUpto = ""
	if len(list) == agedStates {
		e.agedUpto = list[len(list)-1].Name
	}
	var old []Record
	for i := range list {
		if list[i].At.Add(e.opts.StateAge) <= now {
			old = append(old, list[i])
		}
	}
	return e.deleteRecords(ctx, old)
}
