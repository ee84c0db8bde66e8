package queen

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

const (
	// logPage is how many headers one look at a log reads, scanned how many of a partition a list looks at in all: a bound for the count
	// of matches, not for the page.
	logPage = 1000
	scanned = 200_000
	// defaultMessages is the page of a list of messages that names none.
	defaultMessages = 200
)

// The statuses of messages (protocol §4).
const (
	textPending    = "pending"
	textProcessing = "processing"
	textCompleted  = "completed"
	textDead       = "dead_letter"
)

var standingStatus = map[core.Standing]string{
	core.StandingPending: textPending, core.StandingLeased: textProcessing, core.StandingSettled: textCompleted,
}

// deadKey names a dead letter of a group by its message.
type deadKey struct {
	message uuid.UUID
	group   string
}

// lens tells the status of messages of one queue for its groups.
type lens struct {
	queue  *core.Queue
	groups []string
	// hasQueueMode tells that somebody consumes without naming a group.
	hasQueueMode bool
	dead         map[deadKey]*core.DeadLetter
}

func (s *server) lensOf(ctx context.Context, q *core.Queue) (*lens, error) {
	l := &lens{queue: q, dead: map[deadKey]*core.DeadLetter{}}
	groups, err := s.engine.Groups(ctx, q.Name)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if g == core.QueueModeGroup {
			l.hasQueueMode = true
		} else {
			l.groups = append(l.groups, g)
		}
	}
	dead, _, err := s.engine.DeadLetters(ctx, core.DeadLetterFilter{Queue: q.ID, Limit: maxDLQLimit})
	for i := range dead {
		l.dead[deadKey{dead[i].Message.ID, dead[i].Group}] = &dead[i]
	}
	return l, err
}

// mode shows how a queue is consumed.
func (l *lens) mode() dict {
	kind := "none"
	switch {
	case l.hasQueueMode && len(l.groups) > 0:
		kind = "hybrid"
	case l.hasQueueMode:
		kind = "queue"
	case len(l.groups) > 0:
		kind = "bus"
	}
	return dict{"hasQueueMode": l.hasQueueMode, "busGroupsCount": len(l.groups), "type": kind}
}

// partLens are the views of the queue's groups on one partition, queue mode first.
type partLens struct {
	*lens
	views []core.GroupView
	now   core.Time
}

// place is where a message stands with one group. A lease that has run out holds nothing, whether or not the sweep has come by.
func (p *partLens) place(group int, offset int64) (core.Standing, core.Time) {
	st, until := p.views[group].Of(offset)
	switch {
	case st == core.StandingLeased && until > p.now:
		return st, until
	case st == core.StandingLeased:
		return core.StandingPending, 0
	}
	return st, 0
}

func (s *server) onPartition(ctx context.Context, l *lens, ordinal int32) (*partLens, error) {
	p := &partLens{lens: l, now: s.engine.Now()}
	for _, g := range append([]string{core.QueueModeGroup}, l.groups...) {
		v, err := s.engine.ViewGroup(ctx, l.queue.Name, ordinal, g)
		if err != nil {
			return nil, err
		}
		p.views = append(p.views, v)
	}
	return p, nil
}

// standing is where a message stands: with all groups together, and with queue mode.
type standing struct {
	status, queueStatus string
	consumedBy          int
	leasedUntil         core.Time
}

// of tells a message's status. With queue mode, or with no group at all, it is queue mode's; else a message is completed when every group has
// settled it and processing while any of them holds it. A dead letter of any group is a dead letter.
func (p *partLens) of(id uuid.UUID, offset int64) standing {
	var out standing
	leased, dead := false, false
	for i := range p.views {
		v := &p.views[i]
		st, until := p.place(i, offset)
		status := standingStatus[st]
		if p.dead[deadKey{id, v.Group}] != nil {
			status, dead = textDead, true
		}
		if st == core.StandingLeased {
			leased = true
			out.leasedUntil = max(out.leasedUntil, until)
		}
		if i == 0 {
			out.queueStatus = status
		} else if st == core.StandingSettled {
			out.consumedBy++
		}
	}
	out.status = out.queueStatus
	if p.hasQueueMode || len(p.groups) == 0 {
		return out
	}
	switch {
	case dead:
		out.status = textDead
	case leased:
		out.status = textProcessing
	case out.consumedBy == len(p.groups):
		out.status = textCompleted
	default:
		out.status = textPending
	}
	return out
}

// listed is a message of a list, without its payload.
type listed struct {
	core.LogEntry
	standing
	partition *core.Partition
	lens      *lens
}

// listMessages answers GET /api/v1/messages: newest first.
func (s *server) listMessages(c *gin.Context) error {
	v, err := s.parseView(c.Request, defaultMessages, time.Hour)
	if err != nil {
		return err
	}
	switch v.status {
	case "", textPending, textProcessing, textCompleted, textDead:
	default:
		return queryError("status", "pending, processing, completed or dead_letter")
	}
	found, total, mode, err := s.search(c.Request.Context(), &v)
	if err != nil {
		return err
	}
	list, err := s.appendListed(c.Request.Context(), []byte(`{"messages":[`), found)
	if err != nil {
		return err
	}
	tail := dict{"hasQueueMode": false, "busGroupsCount": 0, "type": "none"}
	if mode != nil {
		tail = mode
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte {
		b = append(b, list...)
		b = append(b, `],"mode":{"hasQueueMode":`...)
		b = strconv.AppendBool(b, tail["hasQueueMode"] == true)
		groups, _ := tail["busGroupsCount"].(int)
		b = appendIntField(b, "busGroupsCount", int64(groups))
		kind, _ := tail["type"].(string)
		b = append(appendStringField(b, "type", kind), '}')
		b = appendIntField(b, "total", int64(total))
		b = v.appendPagination(b)
		return append(b, '}')
	})
	return nil
}

func (p *pageParams) appendPagination(b []byte) []byte {
	b = appendIntField(append(appendKey(b, "pagination"), '{'), "limit", int64(p.limit))
	return append(appendIntField(b, "offset", int64(p.offset)), '}')
}

// search finds the page of messages that a query asks for, how many match in all, and how the queue is consumed where the query names one.
func (s *server) search(ctx context.Context, v *view) (found []listed, total int, mode dict, err error) {
	queues, err := s.engine.Queues(ctx)
	if err != nil {
		return nil, 0, nil, err
	}
	for i := range queues {
		if !v.matches(&queues[i]) {
			continue
		}
		l, err := s.lensOf(ctx, &queues[i])
		if err == nil {
			err = s.searchQueue(ctx, v, l, &found, &total)
		}
		if isGone(err) {
			continue
		}
		if err != nil {
			return nil, 0, nil, err
		}
		if v.hasQueue {
			mode = l.mode()
		}
	}
	slices.SortStableFunc(found, newestFirst)
	return page(found, v.pageParams), total, mode, nil
}

func newestFirst(a, b listed) int {
	return cmp.Or(cmp.Compare(b.AppendedAt, a.AppendedAt), cmp.Compare(a.partition.Key, b.partition.Key), cmp.Compare(b.Offset, a.Offset))
}

func (s *server) searchQueue(ctx context.Context, v *view, l *lens, found *[]listed, total *int) error {
	stats, err := s.engine.QueueStats(ctx, l.queue.Name, "")
	if err != nil {
		return err
	}
	for i := range stats.Partitions {
		part := &stats.Partitions[i].Partition
		if v.partition != "" && part.Name != v.partition {
			continue
		}
		p, err := s.onPartition(ctx, l, part.Ordinal)
		if err != nil {
			return err
		}
		if err := s.searchPartition(ctx, v, p, part, found, total); err != nil {
			return err
		}
		// Only what can be on the page is kept.
		slices.SortStableFunc(*found, newestFirst)
		*found = (*found)[:min(len(*found), v.limit+v.offset)]
	}
	return nil
}

func (s *server) searchPartition(ctx context.Context, v *view, p *partLens, part *core.Partition, found *[]listed, total *int) error {
	before, kept := int64(0), 0
	for range scanned / logPage {
		entries, err := s.engine.LogHeaders(ctx, core.LogParams{Queue: p.queue.Name, Ordinal: part.Ordinal, Before: before, Limit: logPage})
		if err != nil {
			return err
		}
		for i := range entries {
			e := &entries[i]
			if e.AppendedAt < v.from {
				return nil
			}
			if e.AppendedAt > v.to {
				continue
			}
			st := p.of(e.ID, e.Offset)
			if v.status != "" && st.status != v.status {
				continue
			}
			*total++
			if kept++; kept <= v.limit+v.offset {
				*found = append(*found, listed{*e, st, part, p.lens})
			}
		}
		if len(entries) < logPage {
			return nil
		}
		before = entries[len(entries)-1].Offset
	}
	return nil
}

// appendListed reads the payloads of a page and appends its messages.
func (s *server) appendListed(ctx context.Context, b []byte, found []listed) ([]byte, error) {
	for i := range found {
		m, ok, err := s.payloadOf(ctx, &found[i])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = appendListedMessage(b, &found[i], m, ok)
	}
	return b, nil
}

// payloadOf reads one message; false when it is gone.
func (s *server) payloadOf(ctx context.Context, l *listed) (*core.Message, bool, error) {
	msgs, err := s.engine.MessagesAt(ctx, l.lens.queue.Name, l.partition.Ordinal, []int64{l.Offset})
	if isGone(err) {
		err = nil
	}
	if err != nil || len(msgs) == 0 {
		return &core.Message{}, false, err
	}
	return &msgs[0], true, nil
}

func appendListedMessage(b []byte, l *listed, m *core.Message, ok bool) []byte {
	q := l.lens.queue
	b = appendIDField(append(b, '{'), "id", l.ID)
	b = appendStringField(b, "transactionId", l.Transaction())
	b = appendOptional(b, "txnHash", hashText(l.Hash))
	b = appendIDField(b, "partitionId", l.partition.ID)
	b = appendStringField(b, "queuePath", q.Name+"/"+l.partition.Name)
	b = appendStringField(b, "queue", q.Name)
	b = appendStringField(b, "partition", l.partition.Name)
	b = appendStringField(b, "namespace", q.Options.Namespace)
	b = appendStringField(b, "task", q.Options.Task)
	b = appendStringField(b, "status", l.status)
	b = appendStringField(b, "queueStatus", l.queueStatus)
	b = appendIntField(append(appendKey(b, "busStatus"), '{'), "consumedBy", int64(l.consumedBy))
	b = append(appendIntField(b, "totalGroups", int64(len(l.lens.groups))), '}')
	b = appendOptional(b, "traceId", m.TraceID)
	b = appendOptional(b, "producerSub", m.Subject)
	b = appendBoolField(b, "payloadAvailable", ok)
	b = appendIntField(append(appendKey(b, "segment"), '{'), "seq", l.Offset)
	b = append(b, `,"frameIdx":0}`...)
	b = appendTimeField(b, "createdAt", l.AppendedAt)
	b = appendTimeField(b, "leaseExpiresAt", l.leasedUntil)
	b = appendData(appendKey(b, "data"), m.ContentType, m.Payload)
	b = appendData(appendKey(b, "payload"), m.ContentType, m.Payload)
	return append(b, '}')
}

func hashText(hash uint64) string {
	if hash == 0 {
		return ""
	}
	return strconv.FormatUint(hash, 16)
}

// queueMessages answers GET /api/v1/status/queues/:queue/messages, which older clients call: an array without payloads.
func (s *server) queueMessages(c *gin.Context) error {
	name, err := pathName(c, "queue")
	if err != nil {
		return err
	}
	v, err := s.parseView(c.Request, 50, time.Duration(s.engine.Now().Milli())*time.Millisecond)
	if err != nil {
		return err
	}
	q, err := s.find(c.Request.Context(), name)
	if err != nil {
		return err
	}
	v.queue, v.hasQueue = q.Name, true
	found, _, _, err := s.search(c.Request.Context(), &v)
	if err != nil {
		return err
	}
	out := make([]dict, 0, len(found))
	for i := range found {
		l := &found[i]
		out = append(out, dict{
			"id": l.ID, "transactionId": l.Transaction(), "partitionId": l.partition.ID, "queue": q.Name, "partition": l.partition.Name,
			"queuePath": q.Name + "/" + l.partition.Name, "status": l.status, "createdAt": stamp(l.AppendedAt),
		})
	}
	return answerJSON(c.Writer, out)
}
