package clients

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/cloudflare/cloudflare-go/v6"
	"github.com/cloudflare/cloudflare-go/v6/option"
	"github.com/cloudflare/cloudflare-go/v6/queues"

	"github.com/leasehold/leasehold/conformance/blackbox"
)

// v6 is the last version of the Go library's older generation: what sdk_v7_test.go says, for types
// of other import paths.
type v6 struct {
	*cloudflare.Client
	account string
}

// newV6 makes the library's client as a program does whose environment names another base URL.
func newV6(t *testing.T, s *blackbox.Server) sdk {
	t.Helper()
	t.Setenv("CLOUDFLARE_BASE_URL", s.Cfqueues+"/client/v4")
	t.Setenv("CLOUDFLARE_API_TOKEN", "any")
	sent := 0
	count := func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		sent++
		return next(r)
	}
	c := v6{cloudflare.NewClient(option.WithMiddleware(count)), account}
	return sdk{c, c, c, c, faultV6, func() int { return sent }}
}

func faultV6(err error) (status int, code int64) {
	var e *cloudflare.Error
	if !errors.As(err, &e) || len(e.Errors) == 0 {
		return 0, 0
	}
	return e.StatusCode, e.Errors[0].Code
}

func (c v6) createQueue(ctx context.Context, name string) (queueView, error) {
	q, err := c.Queues.New(ctx, queues.QueueNewParams{AccountID: cloudflare.F(c.account), QueueName: cloudflare.F(name)})
	return viewV6(q), err
}

func (c v6) getQueue(ctx context.Context, id string) (queueView, error) {
	q, err := c.Queues.Get(ctx, id, queues.QueueGetParams{AccountID: cloudflare.F(c.account)})
	return viewV6(q), err
}

func (c v6) listQueues(ctx context.Context) ([]queueView, error) {
	page, err := c.Queues.List(ctx, queues.QueueListParams{AccountID: cloudflare.F(c.account)})
	if err != nil {
		return nil, err
	}
	var out []queueView
	for _, q := range page.Result {
		out = append(out, viewV6(&q))
	}
	return out, nil
}

func (c v6) pauseQueue(ctx context.Context, id string, paused bool) (queueView, error) {
	q, err := c.Queues.Edit(ctx, id, queues.QueueEditParams{AccountID: cloudflare.F(c.account), Queue: queues.QueueParam{
		Settings: cloudflare.F(queues.QueueSettingsParam{DeliveryPaused: cloudflare.F(paused)}),
	}})
	return viewV6(q), err
}

func (c v6) replaceQueue(ctx context.Context, id, name string, delay int) (queueView, error) {
	q, err := c.Queues.Update(ctx, id, queues.QueueUpdateParams{AccountID: cloudflare.F(c.account), Queue: queues.QueueParam{
		QueueName: cloudflare.F(name), Settings: cloudflare.F(queues.QueueSettingsParam{DeliveryDelay: cloudflare.F(float64(delay))}),
	}})
	return viewV6(q), err
}

func (c v6) deleteQueue(ctx context.Context, id string) error {
	_, err := c.Queues.Delete(ctx, id, queues.QueueDeleteParams{AccountID: cloudflare.F(c.account)})
	return err
}

func (c v6) addConsumer(ctx context.Context, queue string, v consumerView) (consumerView, error) {
	con, err := c.Queues.Consumers.New(ctx, queue, queues.ConsumerNewParams{
		AccountID: cloudflare.F(c.account),
		Body: queues.ConsumerNewParamsBodyMqHTTPConsumerRequest{
			Type:            cloudflare.F(queues.ConsumerNewParamsBodyMqHTTPConsumerRequestTypeHTTPPull),
			DeadLetterQueue: cloudflare.F(v.Dead),
			Settings: cloudflare.F(queues.ConsumerNewParamsBodyMqHTTPConsumerRequestSettings{
				BatchSize: cloudflare.F(float64(v.Batch)), MaxRetries: cloudflare.F(float64(v.Retries)),
				RetryDelay: cloudflare.F(float64(v.RetryDelay)), VisibilityTimeoutMs: cloudflare.F(float64(v.Visibility)),
			}),
		},
	})
	return consumerV6(con), err
}

func (c v6) replaceConsumer(ctx context.Context, queue, id string, v consumerView) (consumerView, error) {
	con, err := c.Queues.Consumers.Update(ctx, queue, id, queues.ConsumerUpdateParams{
		AccountID: cloudflare.F(c.account),
		Body: queues.ConsumerUpdateParamsBodyMqHTTPConsumerRequest{
			Type:            cloudflare.F(queues.ConsumerUpdateParamsBodyMqHTTPConsumerRequestTypeHTTPPull),
			DeadLetterQueue: cloudflare.F(v.Dead),
			Settings: cloudflare.F(queues.ConsumerUpdateParamsBodyMqHTTPConsumerRequestSettings{
				BatchSize: cloudflare.F(float64(v.Batch)), MaxRetries: cloudflare.F(float64(v.Retries)),
				RetryDelay: cloudflare.F(float64(v.RetryDelay)), VisibilityTimeoutMs: cloudflare.F(float64(v.Visibility)),
			}),
		},
	})
	return consumerV6(con), err
}

func (c v6) getConsumer(ctx context.Context, queue, id string) (consumerView, error) {
	con, err := c.Queues.Consumers.Get(ctx, queue, id, queues.ConsumerGetParams{AccountID: cloudflare.F(c.account)})
	return consumerV6(con), err
}

func (c v6) listConsumers(ctx context.Context, queue string) ([]consumerView, error) {
	page, err := c.Queues.Consumers.List(ctx, queue, queues.ConsumerListParams{AccountID: cloudflare.F(c.account)})
	if err != nil {
		return nil, err
	}
	var out []consumerView
	for _, con := range page.Result {
		out = append(out, consumerV6(&con))
	}
	return out, nil
}

func (c v6) deleteConsumer(ctx context.Context, queue, id string) error {
	_, err := c.Queues.Consumers.Delete(ctx, queue, id, queues.ConsumerDeleteParams{AccountID: cloudflare.F(c.account)})
	return err
}

func viewV6(q *queues.Queue) queueView {
	if q == nil {
		return queueView{}
	}
	v := queueView{
		ID: q.QueueID, Name: q.QueueName, Created: q.CreatedOn, Paused: q.Settings.DeliveryPaused,
		Delay: int(q.Settings.DeliveryDelay), Retention: int(q.Settings.MessageRetentionPeriod),
	}
	for _, con := range q.Consumers {
		v.Consumers = append(v.Consumers, consumerV6(&con))
	}
	return v
}

// consumerV6 reads a consumer as the library decodes it by its type: an answer that it cannot
// place has no settings.
func consumerV6(c *queues.Consumer) consumerView {
	if c == nil {
		return consumerView{}
	}
	v := consumerView{ID: c.ConsumerID, Type: string(c.Type), Queue: c.QueueName, Dead: c.DeadLetterQueue, Created: c.CreatedOn}
	if pull, ok := c.AsUnion().(queues.ConsumerMqHTTPConsumerResponse); ok {
		s := pull.Settings
		v.Batch, v.Retries, v.RetryDelay, v.Visibility = int(s.BatchSize), int(s.MaxRetries), int(s.RetryDelay), int(s.VisibilityTimeoutMs)
	}
	return v
}
