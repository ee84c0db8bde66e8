package clients

import (
	"encoding/base64"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/blackbox"
)

// Every generation of Cloudflare's Go library takes messages through their whole life, from the
// creation of a queue to its deletion, with another base URL and nothing else changed.
func TestGoLibraryLife(t *testing.T) {
	for name, connect := range map[string]func(*testing.T, *blackbox.Server) sdk{"v6.10": newV6, "v7": newV7} {
		t.Run(name, func(t *testing.T) {
			overStores(t, func(t *testing.T, s *blackbox.Server) {
				l := &life{T: t, sdk: connect(t, s), clock: frozen(t, s)}
				l.create()
				l.consume()
				l.fill()
				l.settle()
				l.hold()
				l.bury()
				l.look()
				l.pause()
				l.empty()
				l.end()
			})
		})
	}
}

// life is one run: what is left of one step is what the next finds.
type life struct {
	*testing.T
	sdk
	clock *blackbox.Clock
	// jobs and dead are the ids of the queue and its dead letter queue, consumer that of the consumer.
	jobs, dead, consumer string
	// buried is the id of the message that went to the dead letter queue.
	buried string
	asked  int
}

// refused requires that the last call failed in this way after exactly one request: no library
// repeats what cannot succeed.
func (l *life) refused(err error, status int, code int64) {
	l.Helper()
	gotStatus, gotCode := l.fault(err)
	require.Equal(l, status, gotStatus, "%v", err)
	require.Equal(l, code, gotCode, "%v", err)
	require.Equal(l, l.asked+1, l.sent(), "requests sent")
}

// mark counts requests from here.
func (l *life) mark() { l.asked = l.sent() }

func (l *life) create() {
	l.Helper()
	ctx := l.Context()
	none, err := l.listQueues(ctx)
	require.NoError(l, err)
	require.Empty(l, none)
	q, err := l.createQueue(ctx, "jobs")
	require.NoError(l, err)
	require.Regexp(l, "^[0-9a-f]{32}$", q.ID)
	assert.Equal(l, "jobs", q.Name)
	assert.Equal(l, start.Format("2006-01-02T15:04:05.000000Z"), q.Created)
	assert.Equal(l, queueView{ID: q.ID, Name: "jobs", Created: q.Created, Retention: 345600}, q)
	l.jobs = q.ID

	l.mark()
	_, err = l.createQueue(ctx, "jobs")
	l.refused(err, 400, 11009)
	l.mark()
	_, err = l.createQueue(ctx, "Not a name")
	l.refused(err, 400, 11003)
	l.mark()
	_, err = l.pull(ctx, l.jobs, 0, 0)
	l.refused(err, 405, 0)

	q, err = l.replaceQueue(ctx, l.jobs, "work", 3)
	require.NoError(l, err)
	assert.Equal(l, "work", q.Name)
	assert.Equal(l, 3, q.Delay)
	q, err = l.replaceQueue(ctx, l.jobs, "jobs", 0)
	require.NoError(l, err)
	assert.Equal(l, l.jobs, q.ID)
}

func (l *life) consume() {
	l.Helper()
	ctx := l.Context()
	want := consumerView{Type: "http_pull", Queue: "jobs", Dead: "jobs-dead", Created: start, Batch: 10, Retries: 2, RetryDelay: 7, Visibility: 6000}
	made, err := l.addConsumer(ctx, l.jobs, want)
	require.NoError(l, err)
	require.Regexp(l, "^[0-9a-f]{32}$", made.ID)
	l.consumer, want.ID = made.ID, made.ID
	assert.Equal(l, want, made)
	got, err := l.getConsumer(ctx, l.jobs, l.consumer)
	require.NoError(l, err)
	assert.Equal(l, want, got)
	l.mark()
	_, err = l.addConsumer(ctx, l.jobs, want)
	l.refused(err, 400, 11004)

	other := want
	other.Batch, other.RetryDelay = 3, 0
	got, err = l.replaceConsumer(ctx, l.jobs, l.consumer, other)
	require.NoError(l, err)
	assert.Equal(l, other, got)
	_, err = l.replaceConsumer(ctx, l.jobs, l.consumer, want)
	require.NoError(l, err)
	list, err := l.listConsumers(ctx, l.jobs)
	require.NoError(l, err)
	assert.Equal(l, []consumerView{want}, list)
	q, err := l.getQueue(ctx, l.jobs)
	require.NoError(l, err)
	assert.Equal(l, []consumerView{want}, q.Consumers)

	all, err := l.listQueues(ctx)
	require.NoError(l, err)
	require.Len(l, all, 2, "the dead letter queue is made with the consumer that names it")
	i := slices.IndexFunc(all, func(q queueView) bool { return q.Name == "jobs-dead" })
	require.GreaterOrEqual(l, i, 0)
	l.dead = all[i].ID
}

func (l *life) fill() {
	l.Helper()
	ctx := l.Context()
	n, err := l.push(ctx, l.jobs, outgoing{Text: "hello ✓", Delay: -1})
	require.NoError(l, err)
	assert.Equal(l, 1, n)
	_, err = l.push(ctx, l.jobs, outgoing{JSON: map[string]any{"a": 1.5, "b": []any{"<x>", nil}}, Delay: -1})
	require.NoError(l, err)
	_, err = l.pushBatch(ctx, l.jobs, 20, outgoing{Text: "batch", Delay: -1}, outgoing{Text: "now", Delay: 0}, outgoing{JSON: map[string]any{"k": "v"}, Delay: 30})
	require.NoError(l, err)
	m, err := l.metrics(ctx, l.jobs)
	require.NoError(l, err)
	assert.Equal(l, 5, m.Count)
	assert.Equal(l, start.UnixMilli(), m.Oldest)
	assert.Positive(l, m.Bytes)

	l.mark()
	_, err = l.push(ctx, l.jobs, outgoing{Text: "x", Delay: 86401})
	l.refused(err, 400, 10203)
	l.mark()
	_, err = l.pushBatch(ctx, l.jobs, -1)
	l.refused(err, 400, 10206)
	_, err = l.push(ctx, "00000000000000000000000000000000", outgoing{Text: "x", Delay: -1})
	status, code := l.fault(err)
	assert.Equal(l, 404, status)
	assert.EqualValues(l, 10104, code)
}

// arrive pulls until n messages came, by body. An answer may hold fewer than there are.
func (l *life) arrive(queue string, n int) map[string]delivery {
	l.Helper()
	got := map[string]delivery{}
	require.Eventually(l, func() bool {
		list, err := l.pull(l.Context(), queue, 0, 0)
		require.NoError(l, err)
		for _, d := range list {
			require.NotContains(l, got, d.Body, "delivered twice")
			got[d.Body] = d
		}
		return len(got) >= n
	}, 10*time.Second, 5*time.Millisecond, "%d of %d messages came", len(got), n)
	require.Len(l, got, n)
	return got
}

// nothing requires that a pull finds no message.
func (l *life) nothing(queue string) {
	l.Helper()
	list, err := l.pull(l.Context(), queue, 0, 0)
	require.NoError(l, err)
	require.Empty(l, list)
}

func decoded(t *testing.T, body string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(body)
	require.NoError(t, err)
	return string(b)
}

// settle acknowledges one of the three messages that are not delayed and gives two back.
func (l *life) settle() {
	l.Helper()
	ctx := l.Context()
	got := l.arrive(l.jobs, 3)
	l.nothing(l.jobs)
	tokens, json := map[string]bool{}, ""
	for body, d := range got {
		assert.Equal(l, 1, d.Attempts)
		assert.Equal(l, start.UnixMilli(), d.TimestampMS)
		assert.Regexp(l, "^[0-9a-f]{32}$", d.ID)
		assert.Equal(l, "api", d.Metadata["CF-sourceMessageSource"])
		tokens[d.Token] = true
		if body != "hello ✓" && body != "now" {
			assert.Equal(l, "json", d.Metadata["CF-Content-Type"])
			assert.JSONEq(l, `{"a":1.5,"b":["<x>",null]}`, decoded(l.T, body))
			json = d.Token
			continue
		}
		assert.Equal(l, "text", d.Metadata["CF-Content-Type"])
	}
	assert.Len(l, tokens, 3)
	res, err := l.sdk.settle(ctx, l.jobs, []string{got["hello ✓"].Token, "no lease"}, retry{got["now"].Token, 10}, retry{json, 0})
	require.NoError(l, err)
	assert.Equal(l, 1, res.Acks)
	assert.Equal(l, 2, res.Retries)
	assert.Equal(l, []string{"no lease"}, slices.Collect(maps.Keys(res.Warnings)))
	again, err := l.sdk.settle(ctx, l.jobs, []string{got["hello ✓"].Token})
	require.NoError(l, err)
	assert.Equal(l, 1, again.Acks, "an acknowledgement may be repeated")
	m, err := l.metrics(ctx, l.jobs)
	require.NoError(l, err)
	assert.Equal(l, 4, m.Count)

	back := l.arrive(l.jobs, 1)
	for _, d := range back {
		assert.Equal(l, 2, d.Attempts, "a delay of 0 beats the consumer's own")
		_, err = l.sdk.settle(ctx, l.jobs, []string{d.Token})
		require.NoError(l, err)
	}
	l.clock.Advance(l, 9*time.Second)
	l.nothing(l.jobs)
	l.clock.Advance(l, time.Second)
}

// hold keeps a message beyond its lease's time, lets the lease run out, and acknowledges late.
func (l *life) hold() {
	l.Helper()
	ctx := l.Context()
	d := l.arrive(l.jobs, 1)["now"]
	assert.Equal(l, 2, d.Attempts)
	ext, err := l.extend(ctx, l.jobs, 8000, d.Token, "no lease")
	require.NoError(l, err)
	assert.Equal(l, 1, ext.Extended)
	assert.Contains(l, ext.Warnings, "no lease")
	l.clock.Advance(l, 7*time.Second) // 17 s after the start: past the 6 s of the consumer
	l.nothing(l.jobs)
	l.clock.Advance(l, time.Second) // the lease is over, the consumer's delay of 7 s begins
	l.nothing(l.jobs)
	l.clock.Advance(l, 7*time.Second)
	got := l.arrive(l.jobs, 2) // the batch's delay of 20 s is over too
	assert.Equal(l, 3, got["now"].Attempts)
	assert.Equal(l, 1, got["batch"].Attempts)
	assert.NotEqual(l, d.Token, got["now"].Token)
	late, err := l.sdk.settle(ctx, l.jobs, []string{d.Token, got["now"].Token})
	require.NoError(l, err)
	assert.Equal(l, 2, late.Acks, "a late acknowledgement counts, and so does that of the later lease")
	l.buried = got["batch"].ID
	res, err := l.sdk.settle(ctx, l.jobs, nil, retry{got["batch"].Token, -1})
	require.NoError(l, err)
	assert.Equal(l, 1, res.Retries)
	l.clock.Advance(l, 6*time.Second)
	l.arriveDelayed()
	l.clock.Advance(l, time.Second)
}

// arriveDelayed takes the message that was pushed with a delay of its own of 30 s.
func (l *life) arriveDelayed() {
	l.Helper()
	for _, d := range l.arrive(l.jobs, 1) {
		assert.JSONEq(l, `{"k":"v"}`, decoded(l.T, d.Body))
		assert.Equal(l, "30", d.Metadata["CF-msg-delay-secs"])
		_, err := l.sdk.settle(l.Context(), l.jobs, []string{d.Token})
		require.NoError(l, err)
	}
}

// bury uses up the deliveries of a message: one by a retry, the last by a lease that runs out.
func (l *life) bury() {
	l.Helper()
	ctx := l.Context()
	d := l.arrive(l.jobs, 1)["batch"]
	assert.Equal(l, 2, d.Attempts)
	_, err := l.sdk.settle(ctx, l.jobs, nil, retry{d.Token, 0})
	require.NoError(l, err)
	d = l.arrive(l.jobs, 1)["batch"]
	assert.Equal(l, 3, d.Attempts)
	assert.Equal(l, l.buried, d.ID)
	l.clock.Advance(l, 6*time.Second)
	require.Eventually(l, func() bool {
		m, err := l.metrics(ctx, l.dead)
		require.NoError(l, err)
		return m.Count == 1
	}, 10*time.Second, 5*time.Millisecond, "the message did not reach the dead letter queue")
	l.nothing(l.jobs)
	m, err := l.metrics(ctx, l.jobs)
	require.NoError(l, err)
	assert.Zero(l, m.Count)
}
