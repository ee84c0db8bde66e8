package core_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/core"
)

// span is the range of offsets that the tests of sets draw from; small, so that sets meet.
const span = 40

// offsets is the obviously right form of a set.
type offsets map[int64]bool

func (s offsets) runs() core.Runs {
	var out core.Runs
	for o := int64(0); o <= span+1; o++ {
		if !s[o] {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Last+1 == o {
			out[n-1].Last = o
		} else {
			out = append(out, core.Run{First: o, Last: o})
		}
	}
	return out
}

func (s offsets) keep(f func(int64) bool) core.Runs {
	out := offsets{}
	for o := range s {
		if f(o) {
			out[o] = true
		}
	}
	return out.runs()
}

func drawSet(t *rapid.T, label string) offsets {
	s := offsets{}
	for _, o := range rapid.SliceOf(rapid.Int64Range(1, span)).Draw(t, label) {
		s[o] = true
	}
	return s
}

func drawRun(t *rapid.T) core.Run {
	first := rapid.Int64Range(1, span).Draw(t, "first")
	return core.Run{First: first, Last: rapid.Int64Range(first, span).Draw(t, "last")}
}

// same compares sets, of which an empty one may be nil.
func same(t *rapid.T, want, got core.Runs, name string) {
	require.True(t, slices.Equal(want, got), "%s: want %v, got %v", name, want, got)
}

func TestRunsAreSets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, r := drawSet(t, "a"), drawSet(t, "b"), drawRun(t)
		ra, rb := a.runs(), b.runs()
		before := slices.Clone(ra)
		in := func(o int64) bool { return r.First <= o && o <= r.Last }
		off := rapid.Int64Range(0, span+1).Draw(t, "offset")

		both, withRun := offsets{}, offsets{}
		for o := range a {
			both[o], withRun[o] = true, true
		}
		for o := range b {
			both[o] = true
		}
		for o := r.First; o <= r.Last; o++ {
			withRun[o] = true
		}
		same(t, withRun.runs(), ra.Add(r), "Add")
		same(t, both.runs(), ra.Union(rb), "Union")
		same(t, a.keep(func(o int64) bool { return !in(o) }), ra.Remove(r), "Remove")
		same(t, a.keep(func(o int64) bool { return !b[o] }), ra.Minus(rb), "Minus")
		same(t, a.keep(func(o int64) bool { return o <= off }), ra.Upto(off), "Upto")
		same(t, a.keep(func(o int64) bool { return o > off }), ra.Above(off), "Above")
		require.Equal(t, a[off], ra.Has(off), "Has")
		require.EqualValues(t, len(a), ra.Count(), "Count")

		n := rapid.Int64Range(0, span).Draw(t, "n")
		taken, rest := ra.Take(n)
		require.Equal(t, min(n, ra.Count()), taken.Count(), "Take")
		same(t, ra, taken.Union(rest), "Take")
		if len(taken) > 0 && len(rest) > 0 {
			require.Less(t, taken[len(taken)-1].Last, rest[0].First, "Take takes the first")
		}
		same(t, before, ra, "the receiver stays as it was")
	})
}

func TestRunsOffsetsStops(t *testing.T) {
	t.Parallel()
	var got []int64
	core.Runs{{First: 2, Last: 4}, {First: 7, Last: 9}}.Offsets(func(o int64) bool {
		got = append(got, o)
		return o < 7
	})
	assert.Equal(t, []int64{2, 3, 4, 7}, got)
}

func TestRunsRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rs := drawSet(t, "set").runs()
		base := int64(0)
		if len(rs) > 0 {
			base = rapid.Int64Range(0, rs[0].First).Draw(t, "base")
		}
		got, err := core.DecodeRuns(rs.AppendBinary(nil, base), base)
		require.NoError(t, err)
		same(t, rs, got, "round trip")
	})
}

// FuzzDecodeRuns feeds arbitrary bytes to the decoder: it either refuses them or gives what encodes to a set again.
func FuzzDecodeRuns(f *testing.F) {
	f.Add([]byte{}, int64(0))
	f.Add(core.Runs{{First: 5, Last: 9}, {First: 12, Last: 12}}.AppendBinary(nil, 3), int64(3))
	f.Add([]byte{0x80}, int64(1))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0}, int64(1))
	f.Fuzz(func(t *testing.T, buf []byte, base int64) {
		got, err := core.DecodeRuns(buf, base)
		if err != nil {
			if core.CodeOf(err) != core.CodeFormat {
				t.Errorf("code %v", core.CodeOf(err))
			}
			return
		}
		again, err := core.DecodeRuns(got.AppendBinary(nil, base), base)
		if err != nil || !slices.Equal(got, again) {
			t.Errorf("%v became %v, %v", got, again, err)
		}
	})
}
