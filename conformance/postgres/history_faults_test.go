package postgres_test

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
)

// TestHistoriesThatNoQueueGives makes sure that the check of TestTwoGateways finds what it is there for.
func TestHistoriesThatNoQueueGives(t *testing.T) {
	t.Parallel()
	type at struct {
		call, answer int64
		what         any
	}
	for name, c := range map[string]struct {
		ops []at
		ok  bool
	}{
		"in a row":                        {[]at{{1, 2, pushed{1, 3, true}}, {3, 4, taken{1, 2, "a"}}, {5, 6, settled{"a"}}, {7, 8, taken{3, 3, "b"}}}, true},
		"at once":                         {[]at{{1, 9, pushed{1, 3, true}}, {2, 8, taken{1, 3, "a"}}, {3, 7, nothing{}}}, true},
		"queued and a duplicate":          {[]at{{1, 4, pushed{1, 3, true}}, {2, 3, pushed{1, 3, false}}}, true},
		"queued twice":                    {[]at{{1, 4, pushed{1, 3, true}}, {2, 3, pushed{1, 3, true}}}, false},
		"a duplicate of nothing":          {[]at{{1, 2, pushed{1, 3, false}}, {3, 4, pushed{1, 3, true}}}, false},
		"two live leases":                 {[]at{{1, 2, pushed{1, 3, true}}, {3, 6, taken{1, 1, "a"}}, {4, 5, taken{2, 2, "b"}}, {7, 8, settled{"a"}}}, false},
		"not in order":                    {[]at{{1, 2, pushed{1, 3, true}}, {3, 4, taken{2, 3, "a"}}}, false},
		"settled and given again":         {[]at{{1, 2, pushed{1, 3, true}}, {3, 4, taken{1, 3, "a"}}, {5, 6, settled{"a"}}, {7, 8, taken{1, 3, "b"}}}, false},
		"pushed, and nothing is there":    {[]at{{1, 2, pushed{1, 3, true}}, {3, 4, nothing{}}}, false},
		"a gap":                           {[]at{{1, 2, pushed{2, 3, true}}}, false},
		"given before it was pushed":      {[]at{{1, 2, taken{1, 1, "a"}}, {3, 4, pushed{1, 1, true}}}, false},
		"settled, and it was another one": {[]at{{1, 2, pushed{1, 1, true}}, {3, 4, taken{1, 1, "a"}}, {5, 6, settled{"b"}}}, false},
	} {
		h := history{}
		for client, op := range c.ops {
			h.add("x", client, span{op.call, op.answer}, op.what)
		}
		assert.Equal(t, c.ok, porcupine.CheckOperations(model, h.ops["x"]), name)
	}
}
