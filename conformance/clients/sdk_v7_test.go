package clients

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/cloudflare/cloudflare-go/v7"
	"github.com/cloudflare/cloudflare-go/v7/option"
	"github.com/cloudflare/cloudflare-go/v7/queues"

	"github.com/leasehold/leasehold/conformance/blackbox"
)

// v7 is the current generation of the Go library. sdk_v6_test.go says the same in the words of
// the older one: both have these types under other import paths.
type v7 struct {
	*cloudflare.Client
	account string
}

// newV7 makes the library's client as a program does whose environment names another base URL.
func newV7(t *testing.T, s *blackbox.Server) sdk {
	t.Helper()
	t.Setenv("CLOUDFLARE_BASE_URL", s.Cfqueues+"/client/v4")
	t.Setenv("CLOUDFLARE_API_TOKEN", "any")
	sent := 0
	count := func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		sent++
		return next(r)
	}
	c := v7{cloudflare.NewClient(option.WithMiddleware(count)), account}
	return sdk{c, c, c, c, faultV7, func() int { return sent }}
}

func faultV7(err error) (status int, code int64) {
	var e *cloudflare.Error
	if !errors.As(err, &e) || len(e.Errors) == 0 {
		return 0, 0
	}
	return e.StatusCode, e.Errors[0].Code
}

func (c v7) createQueue(ctx context.Context, name string) (queueView, error) {
	q, err := c.Queues.New(ctx, queues.QueueNewParams{AccountID: cloudflare.F(c.account), QueueName: cloudflare.F(name)})
	return viewV7(q), err
}

func (c v7) getQueue(ctx context.Context, id string) (queueView, error) {
	q, err := c.Queues.Get(ctx, id, queues.QueueGetParams{AccountID: cloudflare.F(c.account)})
	return viewV7(q), err
}

func (c v7) listQueues(ctx context.Context) ([]queueView, error) {
	page, err := c.Queues.List(ctx, queues.QueueListParams{AccountID: cloudflare.F(c.account)})
	if err != nil {
		return nil, err
	}
	var out []queueView
	for _, q := range page.Result {
		out = append(out, viewV7(&q))
	}
	return out, nil
}

func (c v7) pauseQueue(ctx context.Context, id string, paused bool) (queueView, error) {
	q, err := c.Queues.Edit(ctx, id, queues.QueueEditParams{AccountID: cloudflare.F(c.account), Queue: queues.QueueParam{
		Settings: cloudflare.F(queues.QueueSettingsParam{DeliveryPaused: cloudflare.F(paused)}),
	}})
	return viewV7(q), err
}

func (c v7) replaceQueue(ctx context.Context, id, name string, delay int) (queueView, error) {
	q, err := c.Queues.Update(ctx, id, queues.QueueUpdateParams{AccountID: cloudflare.F(c.account), Queue: queues.QueueParam{
		QueueName: cloudflare.F(name), Settings: cloudflare.F(queues.QueueSettingsParam{DeliveryDelay: cloudflare.F(float64(delay))}),
	}})
	return viewV7(q), err
}

func (c v7) deleteQueue(ctx context.Context, id string) error {
	_, err := c.Queues.Delete(ctx, id, queues.QueueDeleteParams{AccountID: cloudflare.F(c.account)})
	return err
}

func (c v7) addConsumer(ctx context.Context, queue string, v consumerView) (consumerView, error) {
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
	return consumerV7(con), err
}

func (c v7) replaceConsumer(ctx context.Context, queue, id string, v consumerView) (consumerView, error) {
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
	return consumerV7(con), err
}

func (c v7) getConsumer(ctx context.Context, queue, id string) (consumerView, error) {
	con, err := c.Queues.Consumers.Get(ctx, queue, id, queues.ConsumerGetParams{AccountID: cloudflare.F(c.account)})
	return consumerV7(con), err
}

func (c v7) listConsumers(ctx context.Context, queue string) ([]consumerView, error) {
	page, err := c.Queues.Consumers.List(ctx, queue, queues.ConsumerListParams{AccountID: cloudflare.F(c.account)})
	if err != nil {
		return nil, err
	}
	var out []consumerView
	for _, con := range page.Result {
		out = append(out, consumerV7(&con))
	}
	return out, nil
}

func (c v7) deleteConsumer(ctx context.Context, queue, id string) error {
	_, err := c.Queues.Consumers.Delete(ctx, queue, id, queues.ConsumerDeleteParams{AccountID: cloudflare.F(c.account)})
	return err
}

func viewV7(q *queues.Queue) queueView {
	if q == nil {
		return queueView{}
	}
	v := queueView{
		ID: q.QueueID, Name: q.QueueName, Created: q.CreatedOn, Paused: q.Settings.DeliveryPaused,
		Delay: int(q.Settings.DeliveryDelay), Retention: int(q.Settings.MessageRetentionPeriod),
	}
	for _, con := range q.Consumers {
		v.Consumers = append(v.Consumers, consumerV7(&con))
	}
	return v
}

// consumerV7 reads a consumer as the library decodes it by its type: an answer that it cannot
// place has no settings.
func consumerV7(c *queues.Consumer) consumerView {
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
