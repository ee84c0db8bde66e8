package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/core"
)

// Record implements core.Records.
func (s *Store) Record(ctx context.Context, kind, name string) ([]byte, error) {
	if err := s.enter(ctx, "record"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return slices.Clone(s.records[recordKey{kind, name}].Value), nil
}

// PutRecord implements core.Records.
func (s *Store) PutRecord(ctx context.Context, kind, name string, old, value []byte) error {
	const op = "put record"
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	have, ok := s.records[recordKey{kind, name}]
	if ok != (old != nil) || !slices.Equal(have.Value, old) {
		return core.Errorf(core.CodeConflict, op, "the record is not what the caller knows")
	}
	s.putRecord(core.Record{Kind: kind, Name: name, Value: value})
	return nil
}

func (s *Store) putRecord(r core.Record) {
	key := recordKey{r.Kind, r.Name}
	if r.Value == nil {
		delete(s.records, key)
		return
	}
	r.Value = append([]byte{}, r.Value...)
	s.records[key] = r
}

// ListRecords implements core.RecordLister.
func (s *Store) ListRecords(ctx context.Context, p core.ListRecordsParams) ([]core.Record, error) {
	if err := s.enter(ctx, "list records"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []core.Record
	for key, r := range s.records {
		past := key.name > p.After
		if p.Reverse {
			past = p.After == "" || key.name < p.After
		}
		if key.kind == p.Kind && strings.HasPrefix(key.name, p.Prefix) && (past || p.After == "") {
			r.Value = append([]byte{}, r.Value...)
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b core.Record) int {
		if p.Reverse {
			a, b = b, a
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return first(out, p.Limit), nil
}
