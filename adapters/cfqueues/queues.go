package cfqueues

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// listQueues answers GET /queues. Without page every queue is listed, because the
// official clients never ask for a second page; name filters exactly and may repeat.
func (s *server) listQueues(c *gin.Context) *apiError {
	query := c.Request.URL.Query()
	page, perPage, bad := pageOf(query)
	if bad != nil {
		return bad
	}
	all, err := s.engine.Queues(c.Request.Context())
	if err != nil {
		return fromCore(err)
	}
	names := make(map[uuid.UUID]string, len(all))
	for i := range all {
		names[all[i].ID] = all[i].Name
	}
	who, wanted := callerOf(c), query["name"]
	if who != nil || len(wanted) > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(q core.Queue) bool {
			return len(wanted) > 0 && !slices.Contains(wanted, q.Name) || who.check(q.Name) != nil
		})
	}
	info := &resultInfo{Page: page, PerPage: perPage, TotalCount: len(all)}
	if perPage == 0 {
		info.PerPage = max(len(all), defaultPerPage)
	}
	info.TotalPages = (len(all) + info.PerPage - 1) / info.PerPage
	from := min((page-1)*info.PerPage, len(all))
	shown := all[from:min(from+info.PerPage, len(all))]
	info.Count = len(shown)
	result := make([]queueObject, len(shown))
	for i := range shown {
		result[i] = s.showQueue(&shown[i], names[shown[i].Options.DeadQueue])
	}
	writeList(c, result, info)
	return nil
}

// pageOf reads page and per_page. A list without page is one page of everything,
// which perPage 0 says.
func pageOf(query url.Values) (page, perPage int, err *apiError) {
	page, perPage = 1, 0
	// The bound only keeps the arithmetic of a page's position from overflowing.
	const most = 1 << 30
	for name, value := range map[string]*int{"page": &page, "per_page": &perPage} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		n, convErr := strconv.Atoi(text)
		if convErr != nil || n < 1 || n > most {
			return 0, 0, errShape("Expected a positive integer", root.in(name))
		}
		*value = n
	}
	if query.Get("page") != "" && perPage == 0 {
		perPage = defaultPerPage
	}
	return page, perPage, nil
}

// createQueue answers POST /queues.
func (s *server) createQueue(c *gin.Context) *apiError {
	b, bad := s.body(c, codeBodyInvalid)
	if bad != nil {
		return bad
	}
	defer release(c, b)
	in, bad := s.ctl.decodeQueue(b.Bytes)
	if bad != nil {
		return bad
	}
	if name := textOr(in.QueueName); !queueName.MatchString(name) {
		return errQueueName(name)
	}
	if bad := callerOf(c).check(*in.QueueName); bad != nil {
		return bad
	}
	if bad := s.roomForQueue(c.Request.Context()); bad != nil {
		return bad
	}
	q, err := s.makeQueue(c.Request.Context(), *in.QueueName, &in.Settings)
	if core.CodeOf(err) == core.CodeQueueExists {
		return errQueueNameTaken(*in.QueueName)
	}
	if err != nil {
		return fromCore(err)
	}
	writeResult(c, s.showQueue(&q, ""), encodingNotice(&in.Settings)...)
	return nil
}

// encodingNotice tells what a queue's setting for JSON bodies is now, where the request
// set it: the setting is an extension, so the queue's own object does not show it.
func encodingNotice(in *queueSettingsBody) []string {
	if in.JSONBodyEncoding == nil {
		return nil
	}
	return []string{"json_body_encoding of this queue is " + *in.JSONBodyEncoding}
}

// roomForQueue refuses a queue above the limit.
func (s *server) roomForQueue(ctx context.Context) *apiError {
	all, err := s.engine.Queues(ctx)
	if err != nil {
		return fromCore(err)
	}
	if len(all) >= s.o.Limits.MaxQueues {
		return errQueueCount(s.o.Limits.MaxQueues)
	}
	return nil
}

// makeQueue makes a queue as this protocol does, with the vendor's default for every
// setting that is unset.
func (s *server) makeQueue(ctx context.Context, name string, in *queueSettingsBody) (core.Queue, error) {
	q := core.Queue{Name: name, Origin: core.ProtocolCloudflare}
	q.Options.Queen = core.ImplicitQueen()
	s.setDefaults(&q.Options)
	applySettings(&q.Options, in)
	return s.engine.CreateQueue(ctx, q, 1)
}

// setDefaults sets all settings of a queue to the vendor's defaults. How JSON bodies are
// shown stays: the tools that replace settings know nothing of it.
func (s *server) setDefaults(o *core.QueueOptions) {
	cf := cloudflareOf(o)
	cf.DeliveryDelaySeconds, cf.RetentionSeconds = 0, s.defaultRetention()
	o.Cloudflare, o.DeliveryPaused = &cf, false
}

// defaultRetention is the vendor's, within the bounds of this server, in seconds.
func (s *server) defaultRetention() int32 {
	d := min(max(core.CloudflareRetention, s.o.Limits.MinRetention), s.o.Limits.MaxRetention)
	return narrow(int64(d / time.Second))
}

// clearSettings sets those settings that a request gave as null back to their defaults.
// A queue of another protocol has no retention of this one by default.
func (s *server) clearSettings(q *core.Queue, in *queueSettingsBody) {
	if len(in.Cleared) == 0 {
		return
	}
	cf := cloudflareOf(&q.Options)
	for _, name := range in.Cleared {
		switch name {
		case "delivery_delay":
			cf.DeliveryDelaySeconds = 0
		case "delivery_paused":
			q.Options.DeliveryPaused = false
		case "message_retention_period":
			if cf.RetentionSeconds = 0; q.Origin == core.ProtocolCloudflare {
				cf.RetentionSeconds = s.defaultRetention()
			}
		case "json_body_encoding":
			cf.JSONBodies = ""
		}
	}
	if q.Options.Cloudflare != nil {
		q.Options.Cloudflare = &cf
	}
}

// applySettings sets those settings of a queue that the request names. The bounds
// were checked, so they fit. A queue of another protocol gets options of this one only
// when a setting needs them: a pause is no retention.
func applySettings(o *core.QueueOptions, in *queueSettingsBody) {
	cf := cloudflareOf(o)
	if in.DeliveryDelay != nil {
		cf.DeliveryDelaySeconds = narrow(*in.DeliveryDelay)
	}
	if in.MessageRetentionPeriod != nil {
		cf.RetentionSeconds = narrow(*in.MessageRetentionPeriod)
	}
	if in.JSONBodyEncoding != nil {
		cf.JSONBodies = *in.JSONBodyEncoding
	}
	if in.DeliveryDelay != nil || in.MessageRetentionPeriod != nil || in.JSONBodyEncoding != nil {
		o.Cloudflare = &cf
	}
	if in.DeliveryPaused != nil {
		o.DeliveryPaused = *in.DeliveryPaused
	}
}

// cloudflareOf returns a copy of this protocol's part of a queue's options, to be
// changed and put back: what the options point to may be shared with other requests.
func cloudflareOf(o *core.QueueOptions) core.Cloudflare {
	if o.Cloudflare == nil {
		return core.Cloudflare{}
	}
	return *o.Cloudflare
}

// replaceQueue answers PUT /queues/{queue}: settings that the body leaves out go back
// to their defaults, the name stays.
func (s *server) replaceQueue(c *gin.Context) *apiError { return s.changeQueue(c, true) }

// mergeQueue answers PATCH /queues/{queue}: what the body leaves out stays.
func (s *server) mergeQueue(c *gin.Context) *apiError { return s.changeQueue(c, false) }

// changeQueue renames a queue and changes its settings.
func (s *server) changeQueue(c *gin.Context, reset bool) *apiError {
	b, bad := s.body(c, codeBodyInvalid)
	if bad != nil {
		return bad
	}
	defer release(c, b)
	q, err := s.queue(c)
	if err != nil {
		return fromCore(err)
	}
	in, bad := s.ctl.decodeQueue(b.Bytes)
	if bad != nil {
		return bad
	}
	// A name that stays may be one of another protocol, which this one would not make.
	if in.QueueName != nil && *in.QueueName != q.Name {
		if !queueName.MatchString(*in.QueueName) {
			return errQueueName(*in.QueueName)
		}
		if bad := callerOf(c).check(*in.QueueName); bad != nil {
			return bad
		}
	}
	q, err = s.engine.ConfigureQueue(c.Request.Context(), q.Name, func(q *core.Queue) error {
		if in.QueueName != nil {
			q.Name = *in.QueueName
		}
		if reset {
			s.setDefaults(&q.Options)
		}
		s.clearSettings(q, &in.Settings)
		applySettings(&q.Options, &in.Settings)
		return nil
	})
	if core.CodeOf(err) == core.CodeQueueExists {
		return errQueueNameTaken(*in.QueueName)
	}
	if err != nil {
		return fromCore(err)
	}
	return s.writeQueue(c, &q, encodingNotice(&in.Settings)...)
}

// getQueue answers GET /queues/{queue}.
func (s *server) getQueue(c *gin.Context) *apiError {
	q, err := s.queue(c)
	if err != nil {
		return fromCore(err)
	}
	return s.writeQueue(c, &q)
}

// deleteQueue answers DELETE /queues/{queue}. Messages, leases and the consumer go
// with the queue.
func (s *server) deleteQueue(c *gin.Context) *apiError {
	q, err := s.queue(c)
	if err != nil {
		return fromCore(err)
	}
	err = s.engine.DeleteQueue(c.Request.Context(), q.Name, false)
	if core.CodeOf(err) == core.CodeQueueInUse {
		return errQueueInUse(q.Name)
	}
	if err != nil {
		return fromCore(err)
	}
	writeResult(c, nil)
	return nil
}

// writeQueue answers with one queue.
func (s *server) writeQueue(c *gin.Context, q *core.Queue, notices ...string) *apiError {
	dead, err := s.deadQueueName(c.Request.Context(), q)
	if err != nil {
		return fromCore(err)
	}
	writeResult(c, s.showQueue(q, dead), notices...)
	return nil
}

// deadQueueName returns the name of the queue that takes q's dead letters, or "".
func (s *server) deadQueueName(ctx context.Context, q *core.Queue) (string, error) {
	if q.Options.DeadQueue == uuid.Nil {
		return "", nil
	}
	dead, err := s.engine.QueueByID(ctx, q.Options.DeadQueue)
	if core.CodeOf(err) == core.CodeNoQueue {
		return "", nil
	}
	return dead.Name, err
}

// showQueue is a queue in this protocol's words. Queues of other protocols are shown
// too; where they have no retention of this protocol, the longest possible is shown.
func (s *server) showQueue(q *core.Queue, deadQueue string) queueObject {
	o := queueObject{
		QueueID: hexID(q.ID), QueueName: q.Name,
		CreatedOn: showTime(q.CreatedAt), ModifiedOn: showTime(q.UpdatedAt),
		Producers: []struct{}{}, Consumers: []consumerObject{},
	}
	o.Settings.DeliveryPaused = q.Options.DeliveryPaused
	o.Settings.MessageRetentionPeriod = int64(s.o.Limits.MaxRetention / time.Second)
	if cf := q.Options.Cloudflare; cf != nil {
		o.Settings.DeliveryDelay = int64(cf.DeliveryDelaySeconds)
		if cf.RetentionSeconds > 0 {
			o.Settings.MessageRetentionPeriod = int64(cf.RetentionSeconds)
		}
	}
	if con := consumerOf(q); con != nil {
		o.Consumers = append(o.Consumers, s.showConsumer(q, con, deadQueue))
		o.ConsumersTotalCount = 1
	}
	return o
}

// showTime writes a time as this protocol does.
func showTime(t core.Time) string { return t.Std().Format(timeLayout) }
