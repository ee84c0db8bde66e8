package clients

import (
	"strconv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// look peeks into the dead letter queue, which has no consumer, then reads and removes from it.
func (l *life) look() {
	l.Helper()
	ctx := l.Context()
	seen, err := l.peek(ctx, l.dead, 10)
	require.NoError(l, err)
	require.Len(l, seen, 1)
	assert.Equal(l, l.buried, seen[0].ID)
	assert.Equal(l, "batch", seen[0].Body)
	assert.Equal(l, start.UnixMilli(), seen[0].TimestampMS)
	assert.Zero(l, seen[0].Attempts)
	assert.Equal(l, "text", seen[0].Metadata["CF-Content-Type"])
	again, err := l.peek(ctx, l.dead, 10)
	require.NoError(l, err)
	require.Len(l, again, 1, "peeking leases nothing")

	dead, err := l.addConsumer(ctx, l.dead, consumerView{Batch: 5, Retries: 1, Visibility: 30000})
	require.NoError(l, err)
	assert.Empty(l, dead.Dead)
	d := l.arrive(l.dead, 1)["batch"]
	assert.Equal(l, l.buried, d.ID)
	assert.Equal(l, 1, d.Attempts, "deliveries count anew in the dead letter queue")
	_, err = l.settleOne(l.dead, d.Token)
	require.NoError(l, err)

	for i := range 3 {
		_, err = l.push(ctx, l.dead, outgoing{Text: strconv.Itoa(i), Delay: -1})
		require.NoError(l, err)
	}
	seen, err = l.peek(ctx, l.dead, 2)
	require.NoError(l, err)
	require.Len(l, seen, 2)
	warnings, err := l.removePeeked(ctx, l.dead, seen[0].Token, seen[1].Token)
	require.NoError(l, err)
	assert.Empty(l, warnings)
	warnings, err = l.removePeeked(ctx, l.dead, "no ref")
	require.NoError(l, err)
	assert.Contains(l, warnings, "no ref")
	left, err := l.peek(ctx, l.dead, 10)
	require.NoError(l, err)
	require.Len(l, left, 1)
	assert.NotContains(l, []string{seen[0].ID, seen[1].ID}, left[0].ID)
}

func (l *life) settleOne(queue, lease string) (settled, error) {
	return l.sdk.settle(l.Context(), queue, []string{lease})
}

// pause stops deliveries; pushes, acknowledgements and peeks go on.
func (l *life) pause() {
	l.Helper()
	ctx := l.Context()
	_, err := l.push(ctx, l.jobs, outgoing{Text: "before", Delay: -1})
	require.NoError(l, err)
	d := l.arrive(l.jobs, 1)["before"]
	q, err := l.pauseQueue(ctx, l.jobs, true)
	require.NoError(l, err)
	assert.True(l, q.Paused)
	assert.Equal(l, "jobs", q.Name)
	l.mark()
	_, err = l.pull(ctx, l.jobs, 0, 0)
	status, _ := l.fault(err)
	require.Equal(l, 409, status)
	require.Equal(l, l.asked+1, l.sent(), "a paused queue's 409 is not repeated")
	_, err = l.push(ctx, l.jobs, outgoing{Text: "meanwhile", Delay: -1})
	require.NoError(l, err)
	res, err := l.settleOne(l.jobs, d.Token)
	require.NoError(l, err)
	assert.Equal(l, 1, res.Acks)
	seen, err := l.peek(ctx, l.jobs, 10)
	require.NoError(l, err)
	assert.Len(l, seen, 1)
	_, err = l.pauseQueue(ctx, l.jobs, false)
	require.NoError(l, err)
	l.arrive(l.jobs, 1)
}

// empty purges a queue of a leased, a waiting and a delayed message.
func (l *life) empty() {
	l.Helper()
	ctx := l.Context()
	_, err := l.pushBatch(ctx, l.jobs, -1, outgoing{Text: "waits", Delay: -1}, outgoing{Text: "late", Delay: 60})
	require.NoError(l, err)
	q, err := l.purge(ctx, l.jobs)
	require.NoError(l, err)
	assert.Equal(l, l.jobs, q.ID)
	completed, err := l.purgeStatus(ctx, l.jobs)
	require.NoError(l, err)
	assert.Equal(l, "true", completed)
	m, err := l.metrics(ctx, l.jobs)
	require.NoError(l, err)
	assert.Equal(l, metricsView{}, m)
	l.nothing(l.jobs)
}

func (l *life) end() {
	l.Helper()
	ctx := l.Context()
	l.mark()
	l.refused(l.deleteQueue(ctx, l.dead), 400, 11005)
	require.NoError(l, l.deleteConsumer(ctx, l.jobs, l.consumer))
	l.mark()
	_, err := l.getConsumer(ctx, l.jobs, l.consumer)
	l.refused(err, 404, 11002)
	require.NoError(l, l.deleteQueue(ctx, l.dead))
	require.NoError(l, l.deleteQueue(ctx, l.jobs))
	l.mark()
	_, err = l.getQueue(ctx, l.jobs)
	l.refused(err, 404, 11000)
	l.mark()
	l.refused(l.deleteQueue(ctx, l.jobs), 404, 11000)
	all, err := l.listQueues(ctx)
	require.NoError(l, err)
	assert.Empty(l, all)
}
