package queen

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

const (
	// defaultDLQLimit is the page of a list that names none (protocol §3.8).
	defaultDLQLimit = 100
	// maxDLQLimit bounds a page; the answer says how long it could have been.
	maxDLQLimit = 10000
)

// dlqParams are the query parameters of the dead-letter list.
type dlqParams struct {
	queue, partition, group string
	from, to                core.Time
	limit, offset           int
}

var dlqNames = map[string]bool{
	"queue": true, "partition": true, "consumerGroup": true, "from": true, "to": true, "limit": true, "offset": true,
}

func parseDLQ(query string) (dlqParams, error) {
	p := dlqParams{limit: defaultDLQLimit}
	err := eachParam(query, func(name string) bool { return dlqNames[name] }, p.set)
	return p, err
}

func (p *dlqParams) set(name, value string) error {
	switch name {
	case "queue":
		p.queue = value
	case "partition":
		p.partition = value
	case "consumerGroup":
		p.group = value
	case "from":
		return queryTime(name, value, &p.from)
	case "to":
		return queryTime(name, value, &p.to)
	case "limit", "offset":
		n, err := queryInteger(name, value)
		if err != nil {
			return err
		}
		if name == "limit" {
			p.limit = int(min(max(n, 0), maxDLQLimit))
		} else {
			p.offset = int(min(max(n, 0), maxSeconds))
		}
	}
	return nil
}

func queryTime(name, value string, to *core.Time) error {
	if value == "" {
		return nil
	}
	t, ok := parseTime(value)
	if !ok {
		return queryError(name, "an ISO-8601 time with a zone")
	}
	*to = max(core.TimeOf(t), 1)
	return nil
}

// listDeadLetters answers GET /api/v1/dlq, newest failure first; total counts
// all that match (protocol §3.8).
func (s *server) listDeadLetters(c *gin.Context) error {
	p, err := parseDLQ(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	letters, total, err := s.deadLetters(c.Request.Context(), &p)
	if err != nil {
		return err
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte {
		b = append(b, `{"messages":[`...)
		for i := range letters {
			if i > 0 {
				b = append(b, ',')
			}
			part, queue, _ := s.engine.PartitionByKey(letters[i].Partition)
			b = appendDeadLetter(b, &letters[i], &part, queue)
		}
		b = append(b, `],"pagination":{`...)
		b = appendIntField(b, "limit", int64(p.limit))
		b = append(appendIntField(b, "offset", int64(p.offset)), '}')
		return append(appendIntField(b, "total", total), '}')
	})
	return nil
}

// deadLetters reads one page. Filters by name become filters by id first; a
// name that nothing has matches nothing.
func (s *server) deadLetters(ctx context.Context, p *dlqParams) ([]core.DeadLetter, int64, error) {
	base := core.DeadLetterFilter{Group: p.group, From: p.from, To: p.to, Limit: max(p.limit, 1), Offset: p.offset}
	queues, err := s.dlqQueues(ctx, p)
	if err != nil {
		return nil, 0, err
	}
	filters := []core.DeadLetterFilter{}
	switch {
	case p.partition != "":
		if filters, err = s.dlqPartitions(ctx, queues, p, base); err != nil {
			return nil, 0, err
		}
	case p.queue == "":
		filters = append(filters, base)
	case len(queues) > 0:
		base.Queue = queues[0].ID
		filters = append(filters, base)
	}
	letters, total, err := s.mergeDeadLetters(ctx, filters, p)
	if p.limit == 0 {
		letters = nil
	}
	return letters, total, err
}

// dlqQueues returns the queues that the list is about, none when it is about
// all and no partition must be looked up in them.
func (s *server) dlqQueues(ctx context.Context, p *dlqParams) ([]core.Queue, error) {
	switch {
	case p.queue == "" && p.partition == "":
		return nil, nil
	case p.queue == "":
		return s.engine.Queues(ctx)
	}
	q, err := s.engine.Queue(ctx, p.queue)
	if core.CodeOf(err) == core.CodeNoQueue {
		return nil, nil
	}
	return []core.Queue{q}, err
}

// dlqPartitions makes one filter for each partition of the name. Where there
// are several, each page begins at the top and mergeDeadLetters cuts it.
func (s *server) dlqPartitions(ctx context.Context, queues []core.Queue, p *dlqParams, base core.DeadLetterFilter) ([]core.DeadLetterFilter, error) {
	var filters []core.DeadLetterFilter
	for i := range queues {
		parts, err := s.engine.Partitions(ctx, queues[i].Name)
		if err != nil && core.CodeOf(err) != core.CodeNoQueue {
			return nil, err
		}
		for k := range parts {
			if parts[k].Name != p.partition {
				continue
			}
			f := base
			f.Queue, f.Partition = queues[i].ID, parts[k].Key
			filters = append(filters, f)
		}
	}
	if len(filters) > 1 {
		for i := range filters {
			filters[i].Limit, filters[i].Offset = p.limit+p.offset, 0
		}
	}
	return filters, nil
}

// mergeDeadLetters reads what the filters select, newest failure first.
func (s *server) mergeDeadLetters(ctx context.Context, filters []core.DeadLetterFilter, p *dlqParams) ([]core.DeadLetter, int64, error) {
	var all []core.DeadLetter
	var total int64
	for i := range filters {
		letters, n, err := s.engine.DeadLetters(ctx, filters[i])
		if err != nil {
			return nil, 0, err
		}
		all = append(all, letters...)
		total += n
	}
	if len(filters) > 1 {
		slices.SortStableFunc(all, func(a, b core.DeadLetter) int { return cmp.Compare(b.FailedAt, a.FailedAt) })
		all = all[min(p.offset, len(all)):]
		all = all[:min(p.limit, len(all))]
	}
	return all, total, nil
}

func appendDeadLetter(b []byte, d *core.DeadLetter, part *core.Partition, queue string) []byte {
	m := &d.Message
	b = appendIDField(append(b, '{'), "id", d.ID)
	b = appendTransactionID(b, m)
	b = appendIDField(b, "partitionId", part.ID)
	b = appendStringField(b, "queue", queue)
	b = appendStringField(b, "partition", part.Name)
	b = appendStringField(b, "consumerGroup", d.Group)
	b = appendStringField(b, "errorMessage", d.Error)
	b = appendIntField(b, "retryCount", int64(d.Retries))
	b = appendData(appendKey(b, "data"), m.ContentType, m.Payload)
	b = appendOptional(b, "producerSub", m.Subject)
	b = appendTimeField(b, "createdAt", m.AppendedAt)
	b = appendTimeField(b, "failedAt", d.FailedAt)
	return append(b, '}')
}
