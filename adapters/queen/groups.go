package queen

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

// deleteGroup answers DELETE /api/v1/consumer-groups/:group. A group that nobody knows is no failure: nothing was to delete
// (protocol §3.9).
func (s *server) deleteGroup(c *gin.Context) error {
	return s.dropGroup(c, nil, s.engine.DeleteGroupEverywhere)
}

// deleteQueueGroup answers DELETE /api/v1/consumer-groups/:group/queues/:queue.
func (s *server) deleteQueueGroup(c *gin.Context) error {
	queue, err := pathName(c, "queue")
	if err != nil {
		return err
	}
	return s.dropGroup(c, &queue, func(ctx context.Context, group string, keep bool) (core.DeletedGroup, error) {
		q, err := s.find(ctx, queue)
		if err != nil {
			return core.DeletedGroup{}, err
		}
		return s.engine.DeleteGroup(ctx, q.Name, group, keep)
	})
}

// dropGroup deletes a group under the first spelling of its name that has anything to delete.
func (s *server) dropGroup(c *gin.Context, queue *string, drop func(context.Context, string, bool) (core.DeletedGroup, error)) error {
	group, err := pathName(c, "group")
	if err != nil {
		return err
	}
	metadata, err := deleteMetadata(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	var out core.DeletedGroup
	for _, name := range spellings(group) {
		out, err = drop(c.Request.Context(), name, !metadata)
		if err != nil && core.CodeOf(err) != core.CodeNoQueue {
			return err
		}
		if out.Partitions+out.Registrations > 0 {
			break
		}
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte {
		b = appendBoolField(append(b, '{'), "success", true)
		b = appendStringField(b, "consumerGroup", group)
		if queue != nil {
			b = appendStringField(b, "queueName", *queue)
		}
		b = appendIntField(b, "deletedPartitions", int64(out.Partitions))
		return append(appendBoolField(b, "metadataDeleted", metadata), '}')
	})
	return nil
}

func deleteMetadata(query string) (metadata bool, err error) {
	metadata = true
	err = eachParam(query, func(name string) bool { return name == "deleteMetadata" }, func(name, value string) (err error) {
		metadata, err = queryBoolean(name, value)
		return err
	})
	return metadata, err
}

// groupBody is the body of a seek or of a subscription update.
type groupBody struct {
	toEnd bool
	at    string
}

// decodeGroup reads one time under a key, and toEnd.
func decodeGroup(body []byte, key string) (g groupBody, err error) {
	err = decodeObject(body, func(s *scanner, k string) (err error) {
		switch k {
		case "toEnd":
			if s.null() {
				return nil
			}
			g.toEnd, err = s.boolean(k)
			return err
		case key:
			return s.optionalString(k, &g.at)
		}
		return s.skip(0)
	})
	return g, err
}

// time reads the body's time.
func (g *groupBody) time(key string) (core.Time, error) {
	t, ok := parseTime(g.at)
	if !ok {
		return 0, bodyErrorf("%s must be an ISO-8601 time with a zone", key)
	}
	return core.TimeOf(t), nil
}

// subscription answers POST /api/v1/consumer-groups/:group/subscription: it moves the beginning of partitions that the group has not
// touched, and no cursor.
func (s *server) subscription(c *gin.Context) error {
	const key = "subscriptionTimestamp"
	group, err := pathName(c, "group")
	if err != nil {
		return err
	}
	var g groupBody
	if err := s.copied(c.Request, func(b []byte) (err error) { g, err = decodeGroup(b, key); return err }); err != nil {
		return err
	}
	if g.at == "" {
		return bodyErrorf("%s is required", key)
	}
	at, err := g.time(key)
	if err != nil {
		return err
	}
	rows := 0
	for _, name := range spellings(group) {
		if rows, err = s.engine.Resubscribe(c.Request.Context(), name, at); err != nil || rows > 0 {
			break
		}
	}
	if err != nil {
		return err
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte {
		b = appendBoolField(append(b, '{'), "success", true)
		b = appendStringField(b, "consumerGroup", group)
		b = appendStringField(b, "newTimestamp", g.at)
		return append(appendIntField(b, "rowsUpdated", int64(rows)), '}')
	})
	return nil
}

// seekQueue answers POST /api/v1/consumer-groups/:group/queues/:queue/seek.
func (s *server) seekQueue(c *gin.Context) error {
	call, err := s.seekCall(c)
	if err != nil {
		return err
	}
	if !call.body.toEnd && call.body.at == "" {
		return bodyErrorf("Must specify toEnd=true or a timestamp")
	}
	moved, err := s.seek(c.Request.Context(), call, "")
	if err != nil && core.CodeOf(err) != core.CodeNoQueue {
		return err
	}
	status, success := http.StatusOK, true
	if moved == 0 {
		status, success = http.StatusNotFound, false
	}
	answer(c.Writer, status, func(b []byte) []byte {
		b = appendBoolField(append(b, '{'), "success", success)
		if !success {
			b = appendStringField(b, "error", "Queue not found or has no partitions")
		}
		b = appendStringField(b, "consumerGroup", call.group)
		b = appendStringField(b, "queueName", call.queue)
		if success {
			b = call.body.appendTarget(b)
		}
		return append(appendIntField(b, "partitionsUpdated", int64(moved)), '}')
	})
	return nil
}

// seekPartition answers POST …/queues/:queue/partitions/:partition/seek; an empty body means the end.
func (s *server) seekPartition(c *gin.Context) error {
	call, err := s.seekCall(c)
	if err != nil {
		return err
	}
	partition, err := pathName(c, "partition")
	if err != nil {
		return err
	}
	call.body.toEnd = call.body.toEnd || call.body.at == ""
	for _, name := range spellings(partition) {
		if _, err = s.seek(c.Request.Context(), call, name); core.CodeOf(err) != core.CodeNoPartition || err == nil {
			partition = name
			break
		}
	}
	if code := core.CodeOf(err); err != nil && (code == core.CodeNoQueue || code == core.CodeNoPartition) {
		answer(c.Writer, http.StatusNotFound, func(b []byte) []byte {
			return append(b, `{"success":false,"error":"Partition not found"}`...)
		})
		return nil
	}
	if err != nil {
		return err
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte {
		b = appendBoolField(append(b, '{'), "success", true)
		b = appendStringField(b, "consumerGroup", call.group)
		b = appendStringField(b, "queueName", call.queue)
		b = appendStringField(b, "partitionName", partition)
		b = call.body.appendTarget(b)
		return append(appendBoolField(b, "updated", true), '}')
	})
	return nil
}

// seekCall is what a seek's path and body say.
type seekCall struct {
	group, queue string
	body         groupBody
}

func (s *server) seekCall(c *gin.Context) (call *seekCall, err error) {
	call = &seekCall{}
	if call.group, err = pathName(c, "group"); err != nil {
		return nil, err
	}
	if call.queue, err = pathName(c, "queue"); err != nil {
		return nil, err
	}
	err = s.copied(c.Request, func(b []byte) (err error) { call.body, err = decodeGroup(b, "timestamp"); return err })
	return call, err
}

// seek moves a group, on the queue and under the group's name that exist.
func (s *server) seek(ctx context.Context, call *seekCall, partition string) (int, error) {
	var at core.Time
	if !call.body.toEnd {
		var err error
		if at, err = call.body.time("timestamp"); err != nil {
			return 0, err
		}
	}
	q, err := s.find(ctx, call.queue)
	if err != nil {
		return 0, err
	}
	return s.engine.Seek(ctx, core.SeekParams{
		Queue: q.Name, Partition: partition, Group: s.groupName(ctx, q.Name, call.group), ToEnd: call.body.toEnd, At: at,
	})
}

// groupName returns the spelling of a group's name that is registered on a queue, else the first.
func (s *server) groupName(ctx context.Context, queue, group string) string {
	names := spellings(group)
	if len(names) == 1 {
		return group
	}
	regs, err := s.engine.Registrations(ctx, queue)
	if err != nil {
		return group
	}
	for _, name := range names {
		for i := range regs {
			if regs[i].Group == name {
				return name
			}
		}
	}
	return group
}

func (g *groupBody) appendTarget(b []byte) []byte {
	b = appendBoolField(b, "seekToEnd", g.toEnd)
	if g.toEnd {
		return append(appendKey(b, "targetTimestamp"), "null"...)
	}
	return appendStringField(b, "targetTimestamp", g.at)
}
