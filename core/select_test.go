package core_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/leasehold/leasehold/core"
)

func TestSelectBatches(t *testing.T) {
	t.Parallel()
	lease := uuid.MustParse("00000000-0000-7000-8000-000000000001")
	run := func(first, last int64) core.Runs { return core.Runs{{First: first, Last: last}} }
	all := []core.Batch{
		{ID: 9, First: 90, Last: 95, State: core.BatchEmpty},
		{ID: 1, First: 1, Last: 10, Pending: run(1, 10), State: core.BatchLeased, Lease: lease, Until: 100},
		{ID: 2, First: 11, Last: 20, Pending: run(11, 20), State: core.BatchLeased, Until: 50},
		{ID: 3, First: 5, Last: 30, Pending: run(25, 30), State: core.BatchWaiting, Until: 20, Turn: core.OwnTurn(60) + 1},
		{ID: 4, First: 31, Last: 40, Pending: run(31, 40), State: core.BatchWaiting, Until: 60},
		{ID: 5, First: 41, Last: 45, Pending: run(41, 45), State: core.BatchWaiting, Until: 200},
		{ID: 6, First: 46, Last: 48, Pending: run(46, 48), State: core.BatchLeased, Exclusive: true, Until: 300},
		{ID: 7, First: 49, Last: 50, State: core.BatchEmpty},
	}
	f := core.Frontier{Offset: 80}
	for name, c := range map[string]struct {
		req  core.RowRequest
		now  core.Time
		want []int64
		rest core.Rest
	}{
		"always the exclusive one and what lies above": {core.RowRequest{}, 1000, []int64{6, 9}, core.Rest{NextUntil: 20, Waiting: 21, Leased: 20}},
		"offsets":                      {core.RowRequest{Offsets: []int64{10, 49}}, 0, []int64{1, 3, 6, 7, 9}, core.Rest{NextUntil: 50, Waiting: 15, Leased: 10}},
		"a lease":                      {core.RowRequest{Lease: lease}, 0, []int64{1, 6, 9}, core.Rest{NextUntil: 20, Waiting: 21, Leased: 10}},
		"due by deadline and by turn":  {core.RowRequest{Due: 1}, 100, []int64{2, 4, 6, 9}, core.Rest{NextUntil: 20, Waiting: 11, Leased: 10}},
		"due at its very moment":       {core.RowRequest{Due: 5}, 50, []int64{3, 2, 6, 9}, core.Rest{NextUntil: 60, Waiting: 15, Leased: 10}},
		"nothing is due yet":           {core.RowRequest{Due: 5}, 19, []int64{6, 9}, core.Rest{NextUntil: 20, Waiting: 21, Leased: 20}},
		"more than there are":          {core.RowRequest{Due: 9}, 999, []int64{1, 3, 2, 4, 5, 6, 9}, core.Rest{}},
		"everything":                   {core.RowRequest{All: true, Due: 3}, 999, []int64{1, 3, 2, 4, 5, 6, 7, 9}, core.Rest{}},
		"what is loaded anyway counts": {core.RowRequest{Due: 1, Offsets: []int64{15}}, 60, []int64{3, 2, 4, 6, 9}, core.Rest{NextUntil: 100, Waiting: 5, Leased: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ids []int64
			loaded, rest := core.SelectBatches(all, c.req, f, c.now)
			for _, b := range loaded {
				ids = append(ids, b.ID)
			}
			assert.Equal(t, c.want, ids)
			assert.Equal(t, c.rest, rest)
		})
	}
}
