package storetest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

// childVariable makes Run write to the store in the place it names until it is killed.
const childVariable = "LEASEHOLD_STORETEST_CHILD"

// kills is how often ReopenAfterKill kills a child.
const kills = 4

// killedChild appends and updates as fast as it can and says on standard output what was acknowledged.
func killedChild(t *testing.T, h Harness, place string) {
	t.Helper()
	s := h.Open(t, place)
	now := core.TimeOf(coretest.Start)
	queues, err := s.Queues(t.Context())
	require.NoError(t, err)
	list, err := s.Partitions(t.Context(), queues[0].ID)
	require.NoError(t, err)
	out := bufio.NewWriter(os.Stdout)
	for n := 0; ; n++ {
		segments := make([]core.NewSegment, 0, len(list))
		for i := range list {
			segments = append(segments, coretest.Segments(list[i].Key, n, 1+n%3, now))
		}
		placed, err := s.Append(t.Context(), core.AppendParams{Commit: uuid.New(), Now: now, Segments: segments})
		require.NoError(t, err)
		key := core.RowKey{Partition: list[0].Key, Group: "g"}
		head := placed[0].Log.Head
		_, err = s.Update(t.Context(), core.UpdateParams{Commit: uuid.New(), Now: now, Rows: []core.RowRequest{{Key: key, All: true}}},
			func(core.Tx) (*core.ChangeSet, error) {
				b := core.Batch{ID: head, First: head, Last: head, Pending: run(head, head), Until: now, Lease: uuid.New()}
				c := core.RowChange{Key: key, Move: true, Frontier: core.Frontier{Offset: head}, DeleteAll: true, Put: []core.Batch{b}}
				return &core.ChangeSet{Rows: []core.RowChange{c}}, nil
			})
		require.NoError(t, err)
		fmt.Fprintf(out, "acknowledged %d\n", head)
		require.NoError(t, out.Flush())
	}
}

// reopenAfterKill kills a writing process in the middle of its commits, again and again: what it said is there.
func reopenAfterKill(b *bundle) {
	require.NoError(b, b.s.Close())
	var acknowledged int64
	for round := range kills {
		acknowledged = max(acknowledged, killAfter(b, 60+40*round))
		b.s = b.h.Open(b.T, b.place)
		l := b.log(b.p[0])
		found := int64(len(b.read(b.p[0], 1, l.Head)))
		b.Logf("round %d: acknowledged %d messages per partition, found %d", round, acknowledged, found)
		assert.GreaterOrEqual(b, found, acknowledged)
		assert.Equal(b, l.Head, found, "the log has no hole")
		assert.LessOrEqual(b, found-acknowledged, int64(3), "no more than the commit in flight")
		assert.Equal(b, l.Head, b.log(b.p[1]).Head, "a commit is there whole or not at all")
		assert.Equal(b, l.HeadTotals, b.log(b.p[2]).HeadTotals)
		row := b.row(core.RowKey{Partition: b.p[0], Group: "g"})
		assert.GreaterOrEqual(b, row.Frontier.Offset, acknowledged)
		require.Len(b, row.Batches, 1)
		assert.Equal(b, row.Frontier.Offset, row.Batches[0].First, "frontier and batch are of the same commit")
		require.NoError(b, b.s.Close())
	}
	b.s = b.h.Open(b.T, b.place)
}

// killAfter starts a child on the place, kills it after so many acknowledgements and returns the last one.
func killAfter(b *bundle, lines int) (last int64) {
	b.Helper()
	cmd := exec.CommandContext(b.ctx, os.Args[0], "-test.run=^"+strings.Split(b.Name(), "/")[0]+"$", "-test.timeout=2m") //nolint:gosec // this test's own binary
	cmd.Env = append(os.Environ(), childVariable+"="+b.place)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	in := bufio.NewScanner(pipe)
	for n := 0; in.Scan(); {
		if _, err := fmt.Sscanf(in.Text(), "acknowledged %d", &last); err != nil {
			b.Log(in.Text())
			continue
		}
		if n++; n == lines {
			require.NoError(b, cmd.Process.Kill())
		}
	}
	require.Error(b, cmd.Wait(), "the child ends by being killed")
	require.NotZero(b, last)
	return last
}
