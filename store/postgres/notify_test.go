package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/testenv"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/postgres"
)

// hearing is a store that listens; it returns a channel with what it was told.
func hearing(t *testing.T, s *postgres.Store) chan struct{} {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	told, ended := make(chan struct{}, 1000), make(chan error, 1)
	go func() { ended <- s.Notify(ctx, func() { told <- struct{}{} }) }()
	t.Cleanup(func() {
		cancel()
		assert.Equal(t, core.CodeCanceled, core.CodeOf(<-ended))
	})
	hear(t, told)
	return told
}

func hear(t *testing.T, told chan struct{}) {
	t.Helper()
	select {
	case <-told:
	case <-time.After(20 * time.Second):
		require.Fail(t, "it is not told of anything")
	}
}

// TestNobodyIsToldWhoDoesNotWait counts notifications: a gateway that pushes all the time sends none while nobody waits for what it commits, one
// when somebody begins to, and then one after commits.
func TestNobodyIsToldWhoDoesNotWait(t *testing.T) {
	t.Parallel()
	s, parts, schema := replicas(t, 1)
	count := &counted{is: func(sql string) bool { // the notifications that follow commits
		return strings.HasPrefix(sql, "BEGIN;") && strings.Contains(sql, "pg_notify")
	}}
	pushing, err := postgres.Open(t.Context(), testenv.Postgres(t), postgres.Options{Schema: schema}.Trace(count))
	require.NoError(t, err)
	t.Cleanup(func() { _ = pushing.Close() })
	push := func() {
		_, err := pushing.Append(t.Context(), core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{coretest.Segments(parts[0], 1, 1, 1)}})
		require.NoError(t, err)
	}
	hearing(t, pushing)
	told := hearing(t, s[0])
	require.Eventually(t, func() bool { return !pushing.Alone() && !s[0].Alone() }, 20*time.Second, time.Millisecond)
	for range 50 { // which takes several times as long as there is between two notifications
		push()
	}
	assert.LessOrEqual(t, count.n.Load(), int64(2), "it may have told who came that it is there")
	for len(told) > 0 {
		<-told
	}
	s[0].Await()
	hear(t, told)
	before := count.n.Load()
	push()
	require.Eventually(t, func() bool { return count.n.Load() > before }, 20*time.Second, time.Millisecond)
	hear(t, told)
}

// TestWhoComesIsToldWhoWaits has a gateway begin to listen after another one said that it waits.
func TestWhoComesIsToldWhoWaits(t *testing.T) {
	t.Parallel()
	s, parts, _ := replicas(t, 3)
	told := hearing(t, s[0])
	hearing(t, s[1])
	require.Eventually(t, func() bool { return !s[0].Alone() && !s[1].Alone() }, 20*time.Second, time.Millisecond)
	s[0].Await()
	hearing(t, s[2])
	require.Eventually(t, func() bool { return !s[2].Alone() }, 20*time.Second, time.Millisecond, "who waits has answered")
	_, err := s[2].Append(t.Context(), core.AppendParams{Commit: uuid.New(), Segments: []core.NewSegment{coretest.Segments(parts[0], 1, 1, 1)}})
	require.NoError(t, err)
	hear(t, told)
}
