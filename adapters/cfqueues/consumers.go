package cfqueues

import (
	"context"
	"errors"
	"math"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// consumerOf returns the one consumer that a queue may have, or nil.
func consumerOf(q *core.Queue) *core.CloudflareConsumer {
	if q.Options.Cloudflare == nil {
		return nil
	}
	return q.Options.Cloudflare.Consumer
}

// showConsumer is a consumer in this protocol's words, with effective values for all
// settings.
func (s *server) showConsumer(q *core.Queue, con *core.CloudflareConsumer, deadQueue string) consumerObject {
	return consumerObject{
		ConsumerID: con.ID, Type: con.Type, CreatedOn: showTime(con.CreatedAt),
		QueueID: hexID(q.ID), QueueName: q.Name, DeadLetterQueue: deadQueue,
		Settings: consumerSettings{
			BatchSize: int64(con.BatchSize), MaxRetries: s.maxRetries(&q.Options),
			RetryDelay: int64(con.RetryDelaySeconds), VisibilityTimeoutMS: con.VisibilityMillis,
		},
	}
}

// maxRetries is the queue's limit of deliveries as this protocol counts it: the first
// delivery is no retry. Another protocol may have lifted the limit, for which this one
// has no value; its highest is shown then.
func (s *server) maxRetries(o *core.QueueOptions) int64 {
	if o.MaxDeliveries <= 0 {
		return int64(s.o.Limits.MaxRetries)
	}
	return int64(o.MaxDeliveries) - 1
}

// listConsumers answers GET /queues/{queue}/consumers with none or one.
func (s *server) listConsumers(c *gin.Context) *apiError {
	q, err := s.queue(c)
	if err != nil {
		return fromCore(err)
	}
	dead, err := s.deadQueueName(c.Request.Context(), &q)
	if err != nil {
		return fromCore(err)
	}
	list := []consumerObject{}
	if con := consumerOf(&q); con != nil {
		list = append(list, s.showConsumer(&q, con, dead))
	}
	info := &resultInfo{Count: len(list), Page: 1, PerPage: defaultPerPage, TotalCount: len(list), TotalPages: len(list)}
	writeList(c, list, info)
	return nil
}

// getConsumer answers GET /queues/{queue}/consumers/{consumer}.
func (s *server) getConsumer(c *gin.Context) *apiError {
	q, err := s.queue(c)
	if err != nil {
		return fromCore(err)
	}
	con := consumerOf(&q)
	if con == nil || con.ID != param(c, "consumer") {
		return errConsumerNotFound()
	}
	return s.writeConsumer(c, &q)
}

// writeConsumer answers with the consumer of a queue.
func (s *server) writeConsumer(c *gin.Context, q *core.Queue) *apiError {
	dead, err := s.deadQueueName(c.Request.Context(), q)
	if err != nil {
		return fromCore(err)
	}
	writeResult(c, s.showConsumer(q, consumerOf(q), dead))
	return nil
}

// createConsumer answers POST /queues/{queue}/consumers. A queue has at most one
// consumer, effective at once. Its dead letter queue is made when it does not exist.
func (s *server) createConsumer(c *gin.Context) *apiError {
	b, bad := s.body(c, codeBodyInvalid)
	if bad != nil {
		return bad
	}
	defer release(c, b)
	q, err := s.queue(c)
	if err != nil {
		return fromCore(err)
	}
	in, bad := s.ctl.decodeConsumer(b.Bytes)
	if bad != nil {
		return bad
	}
	// Looked at before the dead letter queue is made, so that a refusal leaves nothing
	// behind, and again inside the change, where it counts.
	if con := consumerOf(&q); con != nil {
		return errConsumerExists(q.Name, hexID(q.ID), con.ID)
	}
	ctx := c.Request.Context()
	dead, bad := s.deadQueue(ctx, &q, in.DeadLetterQueue)
	if bad != nil {
		return bad
	}
	q, err = s.engine.ConfigureQueue(ctx, q.Name, func(q *core.Queue) error {
		if con := consumerOf(q); con != nil {
			return errConsumerExists(q.Name, hexID(q.ID), con.ID)
		}
		s.addConsumer(&q.Options, &in.Settings, dead)
		return nil
	})
	if err != nil {
		return fromChange(err)
	}
	return s.writeConsumer(c, &q)
}

// addConsumer puts a consumer on a queue. The limit of deliveries and the dead letter
// queue are options of the queue, which other protocols share and show.
func (s *server) addConsumer(o *core.QueueOptions, in *consumerSettingsBody, dead uuid.UUID) {
	cf := cloudflareOf(o)
	cf.Consumer = &core.CloudflareConsumer{
		ID: hexID(uuid.New()), Type: typeHTTPPull, CreatedAt: s.engine.Now(),
		BatchSize:         narrow(valueOr(in.BatchSize, defaultBatchSize)),
		RetryDelaySeconds: narrow(valueOr(in.RetryDelay, 0)),
		VisibilityMillis:  valueOr(in.VisibilityTimeoutMS, defaultVisibility.Milliseconds()),
	}
	o.Cloudflare = &cf
	o.MaxDeliveries = narrow(valueOr(in.MaxRetries, defaultMaxRetries) + 1)
	o.DeadQueue = dead
}

// valueOr returns what v points to, or the default.
func valueOr(v *int64, otherwise int64) int64 {
	if v == nil {
		return otherwise
	}
	return *v
}

// narrow fits a checked setting into the width in which the core keeps it. Only limits
// that an operator set beyond 68 years or two billion messages are cut.
func narrow(n int64) int32 {
	return int32(min(max(n, 0), math.MaxInt32))
}

// deadQueue finds the dead letter queue that a consumer of q names, and makes it when
// there is none of that name. A nil name is no queue.
func (s *server) deadQueue(ctx context.Context, q *core.Queue, name *string) (uuid.UUID, *apiError) {
	if name == nil {
		return uuid.Nil, nil
	}
	if *name == q.Name {
		return uuid.Nil, errConsumerSettings("a queue cannot be its own dead letter queue")
	}
	dead, err := s.engine.Queue(ctx, *name)
	if core.CodeOf(err) == core.CodeNoQueue {
		if !queueName.MatchString(*name) {
			return uuid.Nil, errQueueName(*name)
		}
		dead, err = s.makeQueue(ctx, *name, &queueSettingsBody{})
		if core.CodeOf(err) == core.CodeQueueExists {
			// Made by somebody else in between.
			dead, err = s.engine.Queue(ctx, *name)
		}
	}
	if err != nil {
		return uuid.Nil, fromCore(err)
	}
	return dead.ID, nil
}

// deleteConsumer answers DELETE /queues/{queue}/consumers/{consumer}. What is leased
// stays acknowledgeable; later pulls are refused.
func (s *server) deleteConsumer(c *gin.Context) *apiError {
	q, err := s.queue(c)
	if err != nil {
		return fromCore(err)
	}
	id := param(c, "consumer")
	_, err = s.engine.ConfigureQueue(c.Request.Context(), q.Name, func(q *core.Queue) error {
		con := consumerOf(q)
		if con == nil || con.ID != id {
			return errConsumerNotFound()
		}
		cf := cloudflareOf(&q.Options)
		cf.Consumer = nil
		q.Options.Cloudflare = &cf
		// The limit and the dead letter queue came with the consumer. Where Querator
		// uses the queue too they are its own options, and stay.
		if q.Options.Querator == nil {
			q.Options.MaxDeliveries, q.Options.DeadQueue = 0, uuid.Nil
		}
		return nil
	})
	if err != nil {
		return fromChange(err)
	}
	writeResult(c, nil)
	return nil
}

// fromChange turns the error of a configuration change into this protocol's words:
// those that our own change refused with are in them already.
func fromChange(err error) *apiError {
	var own *apiError
	if errors.As(err, &own) {
		return own
	}
	return fromCore(err)
}
