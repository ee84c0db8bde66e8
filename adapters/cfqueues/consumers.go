package cfqueues

import (
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
	o := consumerObject{
		ConsumerID: con.ID, Type: con.Type, CreatedOn: showTime(con.CreatedAt),
		QueueID: hexID(q.ID), QueueName: q.Name, DeadLetterQueue: deadQueue,
	}
	if con.Type == typeWorker {
		o.Script, o.ScriptName, o.Environment = &con.Script, &con.Script, &con.Environment
		o.Settings = workerSettings{
			BatchSize: int64(con.BatchSize), MaxConcurrency: con.MaxConcurrency, MaxRetries: s.maxRetries(&q.Options),
			MaxWaitTimeMS: con.MaxWaitMillis, RetryDelay: int64(con.RetryDelaySeconds),
		}
		return o
	}
	o.Settings = pullSettings{
		BatchSize: int64(con.BatchSize), MaxRetries: s.maxRetries(&q.Options),
		RetryDelay: int64(con.RetryDelaySeconds), VisibilityTimeoutMS: con.VisibilityMillis,
	}
	return o
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
func (s *server) createConsumer(c *gin.Context) *apiError { return s.putConsumer(c, "") }

// replaceConsumer answers PUT /queues/{queue}/consumers/{consumer}: every setting that
// the body leaves out goes back to its default, and the type may change. Where the queue
// has no consumer, one is made with the id of the path.
func (s *server) replaceConsumer(c *gin.Context) *apiError {
	return s.putConsumer(c, param(c, "consumer"))
}

// putConsumer makes a consumer, or replaces the one with an id.
func (s *server) putConsumer(c *gin.Context, id string) *apiError {
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
	if bad := mayPut(&q, id); bad != nil {
		return bad
	}
	dead, bad := s.deadQueue(c, &q, in.DeadLetterQueue)
	if bad != nil {
		return bad
	}
	q, err = s.engine.ConfigureQueue(c.Request.Context(), q.Name, func(q *core.Queue) error {
		if bad := mayPut(q, id); bad != nil {
			return bad
		}
		s.setConsumer(&q.Options, &in, id, dead)
		return nil
	})
	if err != nil {
		return fromCore(err)
	}
	return s.writeConsumer(c, &q)
}

// mayPut says why a queue cannot take a consumer: an empty id is a new one, any other is
// the one that is replaced, or made where the queue has none.
func mayPut(q *core.Queue, id string) *apiError {
	con := consumerOf(q)
	switch {
	case con != nil && con.ID != id:
		return errConsumerExists(q.Name, hexID(q.ID), con)
	case con == nil && id != "":
		if _, ok := parseID(id); !ok {
			return errConsumerNotFound()
		}
	}
	return nil
}

// setConsumer puts a consumer on a queue; one that is replaced keeps its id and its
// birthday. The limit of deliveries and the dead letter queue are options of the queue,
// which other protocols share and show.
func (s *server) setConsumer(o *core.QueueOptions, in *consumerBody, id string, dead uuid.UUID) {
	cf, set := cloudflareOf(o), &in.Settings
	con := core.CloudflareConsumer{ID: id, Type: *in.Type, CreatedAt: s.engine.Now()}
	if cf.Consumer != nil {
		con.CreatedAt = cf.Consumer.CreatedAt
	}
	if id == "" {
		con.ID = hexID(uuid.New())
	}
	con.RetryDelaySeconds = narrow(valueOr(set.RetryDelay, 0))
	if con.Type == typeWorker {
		con.BatchSize = narrow(valueOr(set.BatchSize, workerBatchSize))
		con.MaxWaitMillis = valueOr(set.MaxWaitTimeMS, workerMaxWait.Milliseconds())
		con.Script, con.Environment = textOr(in.Script), textOr(in.Environment)
		if set.MaxConcurrency != nil {
			n := narrow(*set.MaxConcurrency)
			con.MaxConcurrency = &n
		}
	} else {
		con.BatchSize = narrow(valueOr(set.BatchSize, defaultBatchSize))
		con.VisibilityMillis = valueOr(set.VisibilityTimeoutMS, defaultVisibility.Milliseconds())
	}
	cf.Consumer = &con
	o.Cloudflare = &cf
	o.MaxDeliveries = narrow(valueOr(set.MaxRetries, defaultMaxRetries) + 1)
	o.DeadQueue = dead
}

// textOr returns what v points to, or "".
func textOr(v *string) string {
	if v == nil {
		return ""
	}
	return *v
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
func (s *server) deadQueue(c *gin.Context, q *core.Queue, name *string) (uuid.UUID, *apiError) {
	if name == nil {
		return uuid.Nil, nil
	}
	ctx := c.Request.Context()
	if *name == q.Name {
		return uuid.Nil, errConsumerSettings("a queue cannot be its own dead letter queue")
	}
	// What fails here would be written there.
	if bad := callerOf(c).check(*name); bad != nil {
		return uuid.Nil, bad
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
		return fromCore(err)
	}
	writeResult(c, nil)
	return nil
}
