package cfqueues_test

import (
	"encoding/base64"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cloudflare/cloudflare-go/v7"
	"github.com/cloudflare/cloudflare-go/v7/option"
	"github.com/cloudflare/cloudflare-go/v7/queues"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
)

// official is the vendor's Go client, pointed at a server of ours.
type official struct {
	*harness
	client  *cloudflare.Client
	account string
}

func startOfficial(t *testing.T, prefix string) *official {
	t.Helper()
	h := start(t, cfqueues.Options{})
	srv := httptest.NewServer(h.handler)
	t.Cleanup(srv.Close)
	return &official{h, cloudflare.NewClient(option.WithBaseURL(srv.URL+prefix), option.WithAPIToken("any"), option.WithHTTPClient(srv.Client())), "023e105f4ecef8ad9ca31a8372d0c353"}
}

func (o *official) make(name string) string {
	o.t.Helper()
	q, err := o.client.Queues.New(o.t.Context(), queues.QueueNewParams{AccountID: cloudflare.F(o.account), QueueName: cloudflare.F(name)})
	require.NoError(o.t, err)
	assert.Equal(o.t, name, q.QueueName)
	return q.QueueID
}

func (o *official) consume(id, dead string) *queues.Consumer {
	o.t.Helper()
	c, err := o.client.Queues.Consumers.New(o.t.Context(), id, queues.ConsumerNewParams{
		AccountID: cloudflare.F(o.account),
		Body: queues.ConsumerNewParamsBodyMqHTTPConsumerRequest{
			Type:            cloudflare.F(queues.ConsumerNewParamsBodyMqHTTPConsumerRequestTypeHTTPPull),
			DeadLetterQueue: cloudflare.F(dead),
			Settings: cloudflare.F(queues.ConsumerNewParamsBodyMqHTTPConsumerRequestSettings{
				BatchSize: cloudflare.F(50.0), MaxRetries: cloudflare.F(1.0), VisibilityTimeoutMs: cloudflare.F(6000.0),
			}),
		},
	})
	require.NoError(o.t, err)
	return c
}

func (o *official) pull(id string) []queues.MessagePullResponseMessage {
	o.t.Helper()
	res, err := o.client.Queues.Messages.Pull(o.t.Context(), id, queues.MessagePullParams{AccountID: cloudflare.F(o.account)})
	require.NoError(o.t, err)
	return res.Messages
}

func (o *official) settle(id string, acks []queues.MessageAckParamsAck, retries ...queues.MessageAckParamsRetry) *queues.MessageAckResponse {
	o.t.Helper()
	res, err := o.client.Queues.Messages.Ack(o.t.Context(), id, queues.MessageAckParams{
		AccountID: cloudflare.F(o.account), Acks: cloudflare.F(acks), Retries: cloudflare.F(retries),
	})
	require.NoError(o.t, err)
	return res
}

// A working day of the official client: create, consume, push, pull, acknowledge,
// retry with a delay into the dead letter queue, purge, count, delete.
func TestOfficialGoClient(t *testing.T) {
	for _, prefix := range []string{"/client/v4", "", "/client/v4/"} {
		t.Run("base "+prefix, func(t *testing.T) { useOfficial(t, startOfficial(t, prefix)) })
	}
}

func useOfficial(t *testing.T, o *official) {
	t.Helper()
	account := cloudflare.F(o.account)
	id := o.make("jobs")
	con := o.consume(id, "jobs-dlq")
	pullCon, ok := con.AsUnion().(queues.ConsumerMqHTTPConsumerResponse)
	require.True(t, ok, "%T", con.AsUnion())
	assert.Equal(t, "jobs-dlq", pullCon.DeadLetterQueue)
	assert.InDelta(t, 50, pullCon.Settings.BatchSize, 0)
	assert.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), pullCon.CreatedOn)

	pushed, err := o.client.Queues.Messages.Push(t.Context(), id, queues.MessagePushParams{AccountID: account, Body: queues.MessagePushParamsBodyMqQueueMessageText{
		Body: cloudflare.F("hello"), ContentType: cloudflare.F(queues.MessagePushParamsBodyMqQueueMessageTextContentTypeText),
	}})
	require.NoError(t, err)
	assert.InDelta(t, 1, pushed.Metadata.Metrics.BacklogCount, 0)
	bulk, err := o.client.Queues.Messages.BulkPush(t.Context(), id, queues.MessageBulkPushParams{AccountID: account, Messages: cloudflare.F([]queues.MessageBulkPushParamsMessageUnion{
		queues.MessageBulkPushParamsMessagesMqQueueMessageJson{
			Body: cloudflare.F[any](map[string]any{"a": 1}), ContentType: cloudflare.F(queues.MessageBulkPushParamsMessagesMqQueueMessageJsonContentTypeJson),
		},
		queues.MessageBulkPushParamsMessagesMqQueueMessageText{
			Body: cloudflare.F("later"), ContentType: cloudflare.F(queues.MessageBulkPushParamsMessagesMqQueueMessageTextContentTypeText), DelaySeconds: cloudflare.F(5.0),
		},
	})})
	require.NoError(t, err)
	if o.remote == nil { // where counting is slow, a count is shown again for up to a second
		assert.InDelta(t, 3, bulk.Metadata.Metrics.BacklogCount, 0)
	}
	assert.EqualValues(t, 3, o.backlog("/queues/"+id).BacklogCount)

	ms := o.pull(id)
	require.Len(t, ms, 2)
	assert.Equal(t, "hello", ms[0].Body)
	assert.Equal(t, base64.StdEncoding.EncodeToString([]byte(`{"a":1}`)), ms[1].Body)
	assert.InDelta(t, 1, ms[0].Attempts, 0)
	settled := o.settle(id, []queues.MessageAckParamsAck{{LeaseID: cloudflare.F(ms[0].LeaseID)}, {LeaseID: cloudflare.F("garbage")}},
		queues.MessageAckParamsRetry{LeaseID: cloudflare.F(ms[1].LeaseID), DelaySeconds: cloudflare.F(10.0)})
	assert.InDelta(t, 1, settled.AckCount, 0)
	assert.InDelta(t, 1, settled.RetryCount, 0)
	assert.Contains(t, settled.Warnings, "garbage")

	o.clock.Advance(10 * time.Second)
	ms = o.pull(id)
	require.Len(t, ms, 2)
	for _, m := range ms {
		if m.Body == "later" {
			assert.InDelta(t, 1, m.Attempts, 0)
			continue
		}
		assert.InDelta(t, 2, m.Attempts, 0)
		o.settle(id, nil, queues.MessageAckParamsRetry{LeaseID: cloudflare.F(m.LeaseID)})
	}
	closeOfficial(t, o, id, con.ConsumerID)
}

// closeOfficial reads the dead letter, then purges and deletes.
func closeOfficial(t *testing.T, o *official, id, consumer string) {
	t.Helper()
	account := cloudflare.F(o.account)
	page, err := o.client.Queues.List(t.Context(), queues.QueueListParams{AccountID: account})
	require.NoError(t, err)
	require.Len(t, page.Result, 2)
	dlq := page.Result[1].QueueID
	assert.Equal(t, "jobs-dlq", page.Result[1].QueueName)
	_, err = o.client.Queues.Messages.Pull(t.Context(), dlq, queues.MessagePullParams{AccountID: account})
	var failure *cloudflare.Error
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, 405, failure.StatusCode)
	o.consume(dlq, "")
	ms := o.pull(dlq)
	require.Len(t, ms, 1)
	assert.InDelta(t, 1, ms[0].Attempts, 0)

	_, err = o.client.Queues.Purge.Start(t.Context(), id, queues.PurgeStartParams{AccountID: account, DeleteMessagesPermanently: cloudflare.F(true)})
	require.NoError(t, err)
	status, err := o.client.Queues.Purge.Status(t.Context(), id, queues.PurgeStatusParams{AccountID: account})
	require.NoError(t, err)
	assert.Equal(t, "true", status.Completed)
	counts, err := o.client.Queues.GetMetrics(t.Context(), id, queues.QueueGetMetricsParams{AccountID: account})
	require.NoError(t, err)
	assert.Zero(t, counts.BacklogCount)

	_, err = o.client.Queues.Delete(t.Context(), dlq, queues.QueueDeleteParams{AccountID: account})
	require.ErrorAs(t, err, &failure)
	assert.EqualValues(t, 11005, failure.Errors[0].Code)
	_, err = o.client.Queues.Consumers.Delete(t.Context(), id, consumer, queues.ConsumerDeleteParams{AccountID: account})
	require.NoError(t, err)
	for _, queue := range []string{dlq, id} {
		_, err = o.client.Queues.Delete(t.Context(), queue, queues.QueueDeleteParams{AccountID: account})
		require.NoError(t, err)
	}
	_, err = o.client.Queues.Get(t.Context(), id, queues.QueueGetParams{AccountID: account})
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, 404, failure.StatusCode)
}
