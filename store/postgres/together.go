package postgres

import (
	"context"

	"github.com/leasehold/leasehold/core"
)

// ReadAll implements core.Shared.
func (s *Store) ReadAll(ctx context.Context, ps []core.ReadParams) ([][]core.Message, error) {
	out := make([][]core.Message, len(ps))
	for i := range ps {
		got, err := s.Read(ctx, ps[i])
		if err != nil {
			return nil, err
		}
		out[i] = got
	}
	return out, nil
}

// Prefetch implements core.Tx.
func (u *update) Prefetch(ranges []core.HeadersParams) ([][]core.SegmentHeader, error) {
	out := make([][]core.SegmentHeader, len(ranges))
	for i := range ranges {
		got, err := u.Headers(ranges[i].Partition, ranges[i].From, ranges[i].To)
		if err != nil {
			return nil, err
		}
		out[i] = got
	}
	return out, nil
}
