package queen

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

// counts are the numbers that the management routes show of a queue or a
// partition. A partition's group is queue mode: it is the one that every queue
// has.
type counts struct{ total, pending, processing, dead int64 }

// countsOf reads a partition's (or a queue's) statistics. What is delayed
// counts as pending; it is not in the log yet.
func countsOf(st *core.Stats, total int64) counts {
	return counts{
		total:      total + st.Scheduled.Messages,
		pending:    max(st.Pending.Messages-st.Leased.Messages, 0),
		processing: st.Leased.Messages,
	}
}

func (n *counts) add(m counts) {
	n.total += m.total
	n.pending += m.pending
	n.processing += m.processing
	n.dead += m.dead
}

func (n *counts) completed() int64 { return max(n.total-n.pending-n.processing, 0) }

// retained is what a partition's log holds, settled or not.
func retained(st *core.Stats) core.Totals { return st.Log.HeadTotals.Minus(st.Log.StartTotals) }

// deleteQueue answers DELETE /api/v1/resources/queues/:queue: always 200, and
// the body says whether there was such a queue (protocol §3.7).
func (s *server) deleteQueue(c *gin.Context) error {
	name, err := pathName(c, "queue")
	if err != nil {
		return err
	}
	existed := false
	for _, spelling := range spellings(name) {
		err := s.engine.DeleteQueue(c.Request.Context(), spelling, true)
		if err == nil {
			name, existed = spelling, true
			break
		}
		if core.CodeOf(err) != core.CodeNoQueue {
			return err
		}
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte {
		b = appendBoolField(append(b, '{'), "deleted", existed)
		b = appendStringField(b, "queue", name)
		b = appendBoolField(b, "existed", existed)
		if !existed {
			b = appendStringField(b, "message", "Queue not found, nothing was deleted")
		}
		return append(b, '}')
	})
	return nil
}

// listQueues answers GET /api/v1/resources/queues (protocol §4). Its query is
// ignored, as the original does.
func (s *server) listQueues(c *gin.Context) error {
	ctx := c.Request.Context()
	queues, err := s.engine.Queues(ctx)
	if err != nil {
		return err
	}
	b := append(make([]byte, 0, 256*len(queues)+16), `{"queues":[`...)
	for i := range queues {
		stats, err := s.engine.QueueStats(ctx, queues[i].Name, "")
		if err != nil && core.CodeOf(err) != core.CodeNoQueue {
			return err
		}
		if err != nil {
			continue // deleted since the list was read
		}
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = appendQueue(b, &queues[i], &stats)
	}
	b = append(b, "]}"...)
	answer(c.Writer, http.StatusOK, func(out []byte) []byte { return append(out, b...) })
	return nil
}

func appendQueue(b []byte, q *core.Queue, stats *core.QueueStats) []byte {
	var sum counts
	var bytes int64
	for i := range stats.Partitions {
		held := retained(&stats.Partitions[i])
		bytes += held.Bytes
		sum.add(countsOf(&stats.Partitions[i], held.Messages))
	}
	b = appendQueueHead(append(b, '{'), q)
	b = appendIntField(b, "partitions", int64(len(stats.Partitions)))
	b = appendIntField(b, "retainedBytes", bytes)
	b = append(appendKey(b, "segments"), "{}"...)
	b = append(appendKey(b, "messages"), '{')
	b = appendIntField(b, "total", sum.total)
	b = appendIntField(b, "pending", sum.pending)
	b = appendIntField(b, "processing", sum.processing)
	return append(b, "}}"...)
}

func appendQueueHead(b []byte, q *core.Queue) []byte {
	b = appendIDField(b, "id", q.ID)
	b = appendStringField(b, "name", q.Name)
	b = appendStringField(b, "namespace", q.Options.Namespace)
	b = appendStringField(b, "task", q.Options.Task)
	return appendTimeField(b, "createdAt", q.CreatedAt)
}

// queueDetail answers GET /api/v1/resources/queues/:queue (protocol §4).
func (s *server) queueDetail(c *gin.Context) error {
	name, err := pathName(c, "queue")
	if err != nil {
		return err
	}
	ctx := c.Request.Context()
	q, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	stats, err := s.engine.QueueStats(ctx, q.Name, "")
	if err != nil {
		return err
	}
	dead, err := s.deadByPartition(ctx, q, stats.Partitions)
	if err != nil {
		return err
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte { return appendDetail(b, q, stats.Partitions, dead) })
	return nil
}

// find looks a queue up by the name in a management path.
func (s *server) find(ctx context.Context, name string) (q *core.Queue, err error) {
	for _, spelling := range spellings(name) {
		found, err := s.engine.Queue(ctx, spelling)
		if err == nil {
			return &found, nil
		}
		if core.CodeOf(err) != core.CodeNoQueue {
			return nil, err
		}
	}
	return nil, core.Errorf(core.CodeNoQueue, "find queue", "no such queue")
}

// deadByPartition counts dead letters. Most queues have none, and one question
// tells.
func (s *server) deadByPartition(ctx context.Context, q *core.Queue, parts []core.Stats) (map[core.PartitionKey]int64, error) {
	_, total, err := s.engine.DeadLetters(ctx, core.DeadLetterFilter{Queue: q.ID, Limit: 1})
	if err != nil || total == 0 {
		return nil, err
	}
	dead := make(map[core.PartitionKey]int64, len(parts))
	for i := range parts {
		key := parts[i].Partition.Key
		_, n, err := s.engine.DeadLetters(ctx, core.DeadLetterFilter{Queue: q.ID, Partition: key, Limit: 1})
		if err != nil {
			return nil, err
		}
		dead[key] = n
	}
	return dead, nil
}

func appendDetail(b []byte, q *core.Queue, parts []core.Stats, dead map[core.PartitionKey]int64) []byte {
	b = appendQueueHead(append(b, '{'), q)
	b = appendOptions(b, &q.Options.Queen)
	b = append(appendKey(b, "partitions"), '[')
	var sum counts
	var bytes, messages int64
	for i := range parts {
		if i > 0 {
			b = append(b, ',')
		}
		held := retained(&parts[i])
		n := countsOf(&parts[i], held.Messages)
		n.dead = dead[parts[i].Partition.Key]
		sum.add(n)
		bytes += held.Bytes
		messages += held.Messages
		b = appendPartition(b, &parts[i], n)
	}
	b = append(b, ']')
	b = appendCounts(appendKey(b, "totals"), sum)
	b = appendIntField(b, "retainedBytes", bytes)
	b = append(appendKey(b, "segments"), `{"segments":0`...)
	b = appendIntField(b, "messages", messages)
	return append(b, "}}"...)
}

func appendPartition(b []byte, st *core.Stats, n counts) []byte {
	b = appendIDField(append(b, '{'), "id", st.Partition.ID)
	b = appendStringField(b, "name", st.Partition.Name)
	b = appendTimeField(b, "createdAt", st.Partition.CreatedAt)
	b = appendCounts(appendKey(b, "stats"), n)
	b = appendTimeField(b, "oldestMessage", st.OldestAt)
	b = appendTimeField(b, "newestMessage", st.Log.HeadAt)
	return append(b, '}')
}

func appendCounts(b []byte, n counts) []byte {
	b = appendIntField(append(b, '{'), "total", n.total)
	b = appendIntField(b, "pending", n.pending)
	b = appendIntField(b, "processing", n.processing)
	b = appendIntField(b, "completed", n.completed())
	b = append(appendKey(b, "failed"), "null"...)
	b = appendIntField(b, "deadLetter", n.dead)
	return append(b, '}')
}
