package clients

import (
	"context"
	"fmt"
	"net/http"

	"github.com/cloudflare/cloudflare-go/v6"
	"github.com/cloudflare/cloudflare-go/v6/queues"
)

func (c v6) push(ctx context.Context, queue string, m outgoing) (int, error) {
	var body queues.MessagePushParamsBodyUnion
	if m.JSON != nil {
		b := queues.MessagePushParamsBodyMqQueueMessageJson{
			Body: cloudflare.F(m.JSON), ContentType: cloudflare.F(queues.MessagePushParamsBodyMqQueueMessageJsonContentTypeJson),
		}
		if m.Delay >= 0 {
			b.DelaySeconds = cloudflare.F(float64(m.Delay))
		}
		body = b
	} else {
		b := queues.MessagePushParamsBodyMqQueueMessageText{
			Body: cloudflare.F(m.Text), ContentType: cloudflare.F(queues.MessagePushParamsBodyMqQueueMessageTextContentTypeText),
		}
		if m.Delay >= 0 {
			b.DelaySeconds = cloudflare.F(float64(m.Delay))
		}
		body = b
	}
	res, err := c.Queues.Messages.Push(ctx, queue, queues.MessagePushParams{AccountID: cloudflare.F(c.account), Body: body})
	if err != nil {
		return 0, err
	}
	return int(res.Metadata.Metrics.BacklogCount), nil
}

func (c v6) pushBatch(ctx context.Context, queue string, delay int, ms ...outgoing) (int, error) {
	var list []queues.MessageBulkPushParamsMessageUnion
	for _, m := range ms {
		b := queues.MessageBulkPushParamsMessage{
			Body: cloudflare.F[any](m.Text), ContentType: cloudflare.F(queues.MessageBulkPushParamsMessagesContentTypeText),
		}
		if m.JSON != nil {
			b.Body, b.ContentType = cloudflare.F(m.JSON), cloudflare.F(queues.MessageBulkPushParamsMessagesContentTypeJson)
		}
		if m.Delay >= 0 {
			b.DelaySeconds = cloudflare.F(float64(m.Delay))
		}
		list = append(list, b)
	}
	p := queues.MessageBulkPushParams{AccountID: cloudflare.F(c.account), Messages: cloudflare.F(list)}
	if delay >= 0 {
		p.DelaySeconds = cloudflare.F(float64(delay))
	}
	res, err := c.Queues.Messages.BulkPush(ctx, queue, p)
	if err != nil {
		return 0, err
	}
	return int(res.Metadata.Metrics.BacklogCount), nil
}

func (c v6) pull(ctx context.Context, queue string, batch, visibilityMS int) ([]delivery, error) {
	p := queues.MessagePullParams{AccountID: cloudflare.F(c.account)}
	if batch > 0 {
		p.BatchSize = cloudflare.F(float64(batch))
	}
	if visibilityMS > 0 {
		p.VisibilityTimeoutMs = cloudflare.F(float64(visibilityMS))
	}
	res, err := c.Queues.Messages.Pull(ctx, queue, p)
	if err != nil {
		return nil, err
	}
	var out []delivery
	for _, m := range res.Messages {
		d := delivery{ID: m.ID, Token: m.LeaseID, Body: m.Body, Attempts: int(m.Attempts), TimestampMS: int64(m.TimestampMs)}
		d.Metadata, _ = m.Metadata.(map[string]any)
		out = append(out, d)
	}
	return out, nil
}

func (c v6) settle(ctx context.Context, queue string, acks []string, retries ...retry) (settled, error) {
	p := queues.MessageAckParams{AccountID: cloudflare.F(c.account)}
	if len(acks) > 0 {
		var list []queues.MessageAckParamsAck
		for _, id := range acks {
			list = append(list, queues.MessageAckParamsAck{LeaseID: cloudflare.F(id)})
		}
		p.Acks = cloudflare.F(list)
	}
	if len(retries) > 0 {
		var list []queues.MessageAckParamsRetry
		for _, r := range retries {
			item := queues.MessageAckParamsRetry{LeaseID: cloudflare.F(r.Lease)}
			if r.Delay >= 0 {
				item.DelaySeconds = cloudflare.F(float64(r.Delay))
			}
			list = append(list, item)
		}
		p.Retries = cloudflare.F(list)
	}
	res, err := c.Queues.Messages.Ack(ctx, queue, p)
	if err != nil {
		return settled{}, err
	}
	return settled{int(res.AckCount), int(res.RetryCount), res.Warnings}, nil
}

// extend uses the library's way to call a route that it has no method for.
func (c v6) extend(ctx context.Context, queue string, visibilityMS int, leases ...string) (extended, error) {
	var out struct{ Result extended }
	err := c.Execute(ctx, http.MethodPost, c.path(queue, "messages/extend"), map[string]any{"extend": leaseRefs(leases), "visibility_timeout_ms": visibilityMS}, &out)
	return out.Result, err
}

func (c v6) purge(ctx context.Context, queue string) (queueView, error) {
	q, err := c.Queues.Purge.Start(ctx, queue, queues.PurgeStartParams{AccountID: cloudflare.F(c.account), DeleteMessagesPermanently: cloudflare.F(true)})
	return viewV6(q), err
}

func (c v6) purgeStatus(ctx context.Context, queue string) (string, error) {
	s, err := c.Queues.Purge.Status(ctx, queue, queues.PurgeStatusParams{AccountID: cloudflare.F(c.account)})
	if err != nil {
		return "", err
	}
	return s.Completed, nil
}

// peek, removePeeked and metrics came after this generation; its users call the routes by hand.
func (c v6) peek(ctx context.Context, queue string, n int) ([]delivery, error) {
	var out struct {
		Result struct {
			Messages []struct {
				ID, Body, Ref string
				Attempts      int
				TimestampMS   int64 `json:"timestamp_ms"`
				Metadata      map[string]any
			}
		}
	}
	err := c.Execute(ctx, http.MethodPost, c.path(queue, "messages/peek"), map[string]any{"batch_size": n}, &out)
	var list []delivery
	for _, m := range out.Result.Messages {
		list = append(list, delivery{m.ID, m.Ref, m.Body, m.Attempts, m.TimestampMS, m.Metadata})
	}
	return list, err
}

func (c v6) removePeeked(ctx context.Context, queue string, refs ...string) (map[string]string, error) {
	list := []map[string]string{}
	for _, r := range refs {
		list = append(list, map[string]string{"ref": r})
	}
	var out struct {
		Result struct{ Warnings map[string]string }
	}
	err := c.Execute(ctx, http.MethodPost, c.path(queue, "messages/purge"), map[string]any{"refs": list}, &out)
	return out.Result.Warnings, err
}

func (c v6) metrics(ctx context.Context, queue string) (metricsView, error) {
	var out struct{ Result metricsView }
	err := c.Execute(ctx, http.MethodGet, c.path(queue, "metrics"), nil, &out)
	return out.Result, err
}

func (c v6) path(queue, rest string) string {
	return fmt.Sprintf("accounts/%s/queues/%s/%s", c.account, queue, rest)
}
