package queen

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// The pages of the trace lists that name none (protocol §4).
const (
	defaultTraceLimit     = 100
	defaultTraceNameLimit = 50
)

// traceBody is the body of a trace.
type traceBody struct {
	transactionID, partitionID string
	group, event               string
	data                       []byte
	names                      []string
}

func decodeTrace(body []byte) (*traceBody, error) {
	t := &traceBody{group: core.QueueModeGroup, event: "info"}
	err := decodeObject(body, func(s *scanner, key string) (err error) {
		switch key {
		case "transactionId":
			t.transactionID, _, err = s.name(key, "")
		case "partitionId":
			t.partitionID, _, err = s.id(key, "")
		case "consumerGroup":
			return s.optionalString(key, &t.group)
		case "eventType":
			return s.optionalString(key, &t.event)
		case "data":
			if s.null() {
				return nil
			}
			t.data, err = s.raw()
		case "traceNames":
			return t.decodeNames(s)
		default:
			return s.skip(0)
		}
		return err
	})
	if string(t.data) == "[]" { // PHP writes an empty object so
		t.data = []byte("{}")
	}
	return t, err
}

// check looks for what a trace must have; its texts are the protocol's own.
func (t *traceBody) check() (partition uuid.UUID, err error) {
	switch {
	case t.transactionID == "" || t.partitionID == "":
		return uuid.Nil, bodyErrorf("transactionId and partitionId are required")
	case t.data == nil:
		return uuid.Nil, bodyErrorf("data is required")
	}
	return idField("partitionId", t.partitionID)
}

// idField reads an id that must be a UUID.
func idField(what, text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return uuid.Nil, bodyErrorf("%s must be a UUID", what)
	}
	return id, nil
}

// decodeNames reads an array of names, one name or null.
func (t *traceBody) decodeNames(s *scanner) error {
	one := func() error {
		name, ok, err := s.name("traceNames", "")
		if ok && name != "" {
			t.names = append(t.names, name)
		}
		return err
	}
	if t.names = nil; s.peek() == '[' {
		return s.array(func(int) error { return one() })
	}
	return one()
}

// addTrace answers POST /api/v1/traces. Whether there is such a message is not asked (protocol §3.10).
func (s *server) addTrace(c *gin.Context) error {
	var t *traceBody
	release, err := s.body(c.Request, func(b []byte) (err error) { t, err = decodeTrace(b); return err })
	if err != nil {
		return err
	}
	defer release()
	partition, err := t.check()
	if err != nil {
		return err
	}
	done, err := s.engine.AddTrace(c.Request.Context(), core.Trace{
		Partition: partition, TransactionID: t.transactionID, Group: t.group, Event: t.event, Data: t.data, Names: t.names,
	})
	if err != nil {
		return err
	}
	answer(c.Writer, http.StatusCreated, func(b []byte) []byte {
		return append(appendIDField(appendBoolField(append(b, '{'), "success", true), "traceId", done.ID), '}')
	})
	return nil
}

// messageTraces answers GET /api/v1/traces/:partitionId/:transactionId, oldest first.
func (s *server) messageTraces(c *gin.Context) error {
	at, err := addressIn(c)
	if err != nil {
		return err
	}
	var traces []core.Trace
	if partition, err := uuid.Parse(at.partitionID); err == nil {
		if traces, err = s.engine.TracesOf(c.Request.Context(), partition, at.transactionID); err != nil {
			return err
		}
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte {
		b = append(b, `{"traces":[`...)
		for i := range traces {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendTrace(append(b, '{'), &traces[i]), '}')
		}
		return append(b, "]}"...)
	})
	return nil
}

func appendTrace(b []byte, t *core.Trace) []byte {
	b = appendIDField(b, "id", t.ID)
	b = appendStringField(b, "event_type", t.Event)
	b = append(appendKey(b, "data"), t.Data...)
	b = appendStringField(b, "consumer_group", t.Group)
	b = append(appendKey(b, "worker_id"), "null"...)
	b = appendTimeField(b, "created_at", t.At)
	b = append(appendKey(b, "trace_names"), '[')
	for i, name := range t.Names {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, name)
	}
	return append(b, ']')
}

// pageParams are the query parameters of a list.
type pageParams struct{ limit, offset int }

func parsePage(query string, limit int) (p pageParams, err error) {
	p.limit = limit
	err = eachParam(query, func(name string) bool { return name == "limit" || name == "offset" }, func(name, value string) error {
		n, err := queryInteger(name, value)
		if name == "limit" {
			p.limit = int(min(max(n, 0), maxDLQLimit))
		} else {
			p.offset = int(min(max(n, 0), maxSeconds))
		}
		return err
	})
	return p, err
}

// appendPage ends a list.
func (p *pageParams) append(b []byte, total int) []byte {
	b = appendIntField(b, "total", int64(total))
	b = appendIntField(append(appendKey(b, "pagination"), '{'), "limit", int64(p.limit))
	return append(appendIntField(b, "offset", int64(p.offset)), "}}"...)
}

// namedTraces answers GET /api/v1/traces/by-name/:traceName, newest first, each with its message as far as that still exists.
func (s *server) namedTraces(c *gin.Context) error {
	name, err := pathName(c, "traceName")
	if err != nil {
		return err
	}
	p, err := parsePage(c.Request.URL.RawQuery, defaultTraceLimit)
	if err != nil {
		return err
	}
	ctx := c.Request.Context()
	traces, total, err := s.engine.TracesNamed(ctx, name, p.limit, p.offset)
	if err != nil {
		return err
	}
	out := []byte(`{"traces":[`)
	for i := range traces {
		t := &traces[i]
		m, found, err := s.engine.MessageOf(ctx, t.Partition, t.TransactionID)
		if err != nil {
			return err
		}
		part, queue, _ := s.engine.PartitionByID(t.Partition)
		if i > 0 {
			out = append(out, ',')
		}
		out = appendTrace(append(out, '{'), t)
		out = appendStringField(out, "transaction_id", t.TransactionID)
		out = appendIDField(out, "partition_id", t.Partition)
		out = appendOptional(out, "queue_name", queue)
		out = appendOptional(out, "partition_name", part.Name)
		if out = appendKey(out, "message_payload"); found {
			out = appendData(out, m.ContentType, m.Payload)
		} else {
			out = append(out, "null"...)
		}
		out = append(out, '}')
	}
	out = append(out, ']')
	answer(c.Writer, http.StatusOK, func(b []byte) []byte { return p.append(append(b, out...), total) })
	return nil
}

// traceNames answers GET /api/v1/traces/names, the name seen last first.
func (s *server) traceNames(c *gin.Context) error {
	p, err := parsePage(c.Request.URL.RawQuery, defaultTraceNameLimit)
	if err != nil {
		return err
	}
	names, total, err := s.engine.TraceNames(c.Request.Context(), p.limit, p.offset)
	if err != nil {
		return err
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte {
		b = append(b, `{"trace_names":[`...)
		for i := range names {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendStringField(append(b, '{'), "trace_name", names[i].Name)
			b = appendIntField(b, "trace_count", int64(names[i].Traces))
			b = appendIntField(b, "message_count", int64(names[i].Messages))
			b = append(appendTimeField(b, "last_seen", names[i].LastSeen), '}')
		}
		return p.append(append(b, ']'), total)
	})
	return nil
}
