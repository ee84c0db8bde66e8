package queen

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

const (
	// answerEarly is how long before its deadline a long poll ends, where the
	// deadline is at least answerEarlyFrom away. The Go client gives up on a
	// request after 30 s, the usual timeout (protocol §7.2).
	answerEarly     = 100 * time.Millisecond
	answerEarlyFrom = time.Second

	// maxTimeout bounds a long poll and maxSeconds a lease, so that no number
	// in a query overflows a duration: a day, and 68 years.
	maxTimeout = 24 * time.Hour
	maxSeconds = 1<<31 - 1
	// maxBatch bounds the message budget of a pop.
	maxBatch = 1 << 20
	// autopilotPartitions is how many partitions a pop may claim whose client leaves it to the server: enough that small partitions fill a
	// batch, few enough that workers share them.
	autopilotPartitions = 10
)

// popParams are the query parameters of a pop.
type popParams struct {
	batch, partitions int
	autoAck, wait     bool
	timeout, lease    time.Duration
	group             string
	subscribeNew      bool
	subscribeFrom     core.Time
	namespace, task   string
	conflation        bool
	autopilot         bool
	// hasPartitions tells that the client chose them itself.
	hasPartitions bool
}

// popNames are the parameters that a pop knows. Those of discovery are read on
// all three routes, as SDKs send them everywhere, and used on one.
var popNames = map[string]bool{
	"batch": true, "partitions": true, "autoAck": true, "wait": true, "timeout": true, "leaseSeconds": true,
	"consumerGroup": true, "subscriptionMode": true, "subscriptionFrom": true, "namespace": true, "task": true,
	"conflation": true, "autopilot": true,
}

// parsePop reads the query of a pop.
func (s *server) parsePop(query string) (popParams, error) {
	p := popParams{
		batch: s.o.Batch, partitions: 1, timeout: s.o.Timeout,
		group: core.QueueModeGroup, subscribeNew: s.o.SubscribeNew,
	}
	from := ""
	err := eachParam(query, func(name string) bool { return popNames[name] }, func(name, value string) (err error) {
		if name == "subscriptionFrom" {
			from = value
			return nil
		}
		return p.set(name, value)
	})
	p.subscribe(from)
	if p.autopilot && !p.hasPartitions {
		p.partitions = autopilotPartitions
	}
	return p, err
}

func (p *popParams) set(name, value string) (err error) {
	var n int64
	switch name {
	case "batch":
		n, err = queryInteger(name, value)
		p.batch = int(min(max(n, 1), maxBatch))
	case "partitions":
		n, err = queryInteger(name, value)
		p.partitions, p.hasPartitions = int(min(max(n, 0), maxBatch)), true
	case "autoAck":
		p.autoAck, err = queryBoolean(name, value)
	case "wait":
		p.wait, err = queryBoolean(name, value)
	case "timeout":
		n, err = queryInteger(name, value)
		p.timeout = time.Duration(min(max(n, 0), maxTimeout.Milliseconds())) * time.Millisecond
	case "leaseSeconds":
		n, err = queryInteger(name, value)
		p.lease = time.Duration(min(max(n, 0), maxSeconds)) * time.Second
	case "consumerGroup":
		if value != "" {
			p.group = value
		}
	case "subscriptionMode":
		if value != "" {
			p.subscribeNew = value == "new" || value == "new-only"
		}
	case "conflation":
		p.conflation, err = queryBoolean(name, value)
	case "autopilot":
		p.autopilot, err = queryBoolean(name, value)
	case "namespace":
		p.namespace = value
	case "task":
		p.task = value
	}
	return err
}

// subscribe applies subscriptionFrom, which goes before the mode. What is
// neither "now" nor a time is ignored (protocol §3.2).
func (p *popParams) subscribe(from string) {
	if from == "now" {
		p.subscribeNew = true
		return
	}
	if t, ok := parseTime(from); ok {
		// Zero means "none" to the engine; nothing is older than the epoch.
		p.subscribeFrom = max(core.TimeOf(t), 1)
		p.subscribeNew = false
	}
}

// waiting is how long the claim may wait.
func (p *popParams) waiting() time.Duration {
	switch {
	case !p.wait:
		return 0
	case p.timeout >= answerEarlyFrom:
		return p.timeout - answerEarly
	}
	return p.timeout
}

// popDiscovery answers GET /api/v1/pop: every queue that matches namespace and
// task.
func (s *server) popDiscovery(c *gin.Context) error {
	p, err := s.parsePop(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	if p.namespace == "" && p.task == "" {
		answer(c.Writer, http.StatusBadRequest, func(b []byte) []byte {
			return append(b, `{"success":false,"error":"namespace or task is required","messages":[]}`...)
		})
		return nil
	}
	return s.pop(c, &p, core.ClaimParams{Namespace: p.namespace, Task: p.task, Partitions: p.partitions})
}

// popQueue answers GET /api/v1/pop/queue/:queue: the engine picks the
// partitions.
func (s *server) popQueue(c *gin.Context) error {
	queue, err := pathName(c, "queue")
	if err != nil {
		return err
	}
	p, err := s.parsePop(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	return s.pop(c, &p, core.ClaimParams{Queue: queue, Partitions: p.partitions, Create: true})
}

// popPartition answers GET /api/v1/pop/queue/:queue/partition/:partition. It
// creates no partition.
func (s *server) popPartition(c *gin.Context) error {
	queue, err := pathName(c, "queue")
	if err != nil {
		return err
	}
	partition, err := pathName(c, "partition")
	if err != nil {
		return err
	}
	p, err := s.parsePop(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	return s.pop(c, &p, core.ClaimParams{Queue: queue, Partition: partition, Partitions: 1, Create: true})
}

// pop claims in the scope that claim names and answers 200 with what it got or
// a bare 204.
func (s *server) pop(c *gin.Context, p *popParams, claim core.ClaimParams) error {
	if p.conflation && (p.group == core.QueueModeGroup || p.autoAck) {
		return bodyErrorf("conflation needs a consumerGroup and no autoAck")
	}
	claim.Protocol = core.ProtocolQueen
	claim.Exclusive = true
	claim.Group = p.group
	claim.Messages = p.batch
	claim.Lease = p.lease
	claim.AutoAck = p.autoAck
	claim.Wait = p.waiting()
	claim.SubscribeNew = p.subscribeNew
	claim.SubscribeFrom = p.subscribeFrom
	claim.NewestOnly = p.conflation
	if s.o.Maintenance.popPaused(c.Request.Context()) {
		answerNothing(c.Writer)
		return nil
	}
	ctx, done := s.o.Maintenance.park(c.Request.Context(), claim.Wait)
	defer done()
	got, err := s.engine.Claim(ctx, claim)
	if err != nil && ctx.Err() != nil && c.Request.Context().Err() == nil {
		answerNothing(c.Writer) // pop maintenance was switched on while it waited
		return nil
	}
	s.o.Meter.popped(&got, s.engine.Now())
	if err != nil {
		return s.popFailed(c, claim.Queue, p, &got, err)
	}
	if delivered(&got) == 0 {
		s.answerEmpty(c.Writer, claim.Queue, p, &got)
		return nil
	}
	answer(c.Writer, http.StatusOK, func(b []byte) []byte { return appendPopped(b, claim.Queue, p, &got, s.o.DeliveryAttempt) })
	return nil
}

// answerEmpty answers a pop that got nothing with a bare 204. A client that asks for conflation is told what its group has even
// then, since it takes silence for a server that does not know the word.
func (s *server) answerEmpty(w http.ResponseWriter, queue string, p *popParams, got *core.Claimed) {
	if !p.conflation {
		answerNothing(w)
		return
	}
	answer(w, http.StatusOK, func(b []byte) []byte {
		b = append(b, `{"success":true`...)
		b = appendStringField(b, "queue", queue)
		b = appendStringField(b, "partition", "")
		b = append(appendKey(b, "partitionId"), "null"...)
		b = appendStringField(b, "leaseId", "")
		b = appendStringField(b, "consumerGroup", p.group)
		b = append(b, `,"messages":[],"partitionsClaimed":0`...)
		return append(appendEchoes(b, p, got), '}')
	})
}

// appendEchoes appends what newer clients look for: whether the group gets last values only, and what the server chose for them. Older
// clients ask for neither and see neither.
func appendEchoes(b []byte, p *popParams, got *core.Claimed) []byte {
	if got.NewestOnly {
		b = appendBoolField(b, "conflation", true)
	}
	if got.Disagrees {
		b = appendBoolField(b, "conflationConflict", true)
	}
	if p.autopilot {
		b = appendIntField(append(appendKey(b, "autopilot"), '{'), "partitions", int64(p.partitions))
		b = append(appendIntField(b, "batch", int64(p.batch)), '}')
	}
	return b
}

func delivered(got *core.Claimed) int {
	n := 0
	for i := range got.Partitions {
		n += len(got.Partitions[i].Messages)
	}
	return n
}

// popFailed answers what is no delivery. Everything that a client can do
// nothing about but ask again is a bare 204 (protocol §3.2): nothing there in
// time, delivery paused, an unknown partition, a queue deleted or a server
// stopping meanwhile. A failure of the store is not hidden in one (§12, 14).
func (s *server) popFailed(c *gin.Context, queue string, p *popParams, got *core.Claimed, err error) error {
	switch core.CodeOf(err) {
	case core.CodeNothing, core.CodePaused, core.CodeNoQueue, core.CodeNoPartition, core.CodeClosed, core.CodeDeleted:
		s.answerEmpty(c.Writer, queue, p, got)
		return nil
	case core.CodeInvalid, core.CodeCanceled, core.CodeUnavailable, core.CodeOverloaded, core.CodeUnimplemented:
		return err
	default:
		s.logger.ErrorContext(c.Request.Context(), "pop failed",
			"code", core.CodeOf(err).String(), "error", err.Error())
		writeError(c.Writer, reply{http.StatusInternalServerError, "pop failed"})
		return nil
	}
}

// appendPopped appends the answer of a pop. Its top level speaks of the first
// partition; queue is the name in the path, empty for discovery.
func appendPopped(b []byte, queue string, p *popParams, got *core.Claimed, attempts bool) []byte {
	lease := leaseText(p, got)
	first := &got.Partitions[0].Partition
	b = append(b, `{"success":true`...)
	b = appendStringField(b, "queue", queue)
	b = appendStringField(b, "partition", first.Name)
	b = appendIDField(b, "partitionId", first.ID)
	b = appendStringField(b, "leaseId", lease)
	b = appendStringField(b, "consumerGroup", p.group)
	b = append(appendKey(b, "messages"), '[')
	for i := range got.Partitions {
		b = appendDelivered(b, &got.Partitions[i], lease, p.group, attempts)
	}
	b = append(b, ']')
	b = appendIntField(b, "partitionsClaimed", int64(len(got.Partitions)))
	return append(appendEchoes(b, p, got), '}')
}

func leaseText(p *popParams, got *core.Claimed) string {
	if p.autoAck {
		return ""
	}
	return got.Lease.String()
}

// appendDelivered appends the messages of one partition, each with exactly the
// ten keys of protocol §3.2, and deliveryAttempt where attempts asks for it.
// What stands behind the payload is the same for all of them and is written once.
func appendDelivered(b []byte, part *core.ClaimedPartition, lease, group string, attempts bool) []byte {
	tail := appendIDField([]byte{'{'}, "partitionId", part.Partition.ID)
	tail = appendStringField(tail, "partition", part.Partition.Name)
	tail = appendStringField(tail, "leaseId", lease)
	tail = appendStringField(tail, "consumerGroup", group)
	tail[0] = ','
	tail = append(tail, '}')
	for i := range part.Messages {
		m := &part.Messages[i].Message
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = append(b, '{')
		b = appendIDField(b, "id", m.ID)
		b = appendTransactionID(b, m)
		b = appendOptional(b, "traceId", m.TraceID)
		b = appendData(appendKey(b, "data"), m.ContentType, m.Payload)
		b = appendOptional(b, "producerSub", m.Subject)
		b = appendTimeField(b, "createdAt", m.AppendedAt)
		if attempts {
			b = appendIntField(b, "deliveryAttempt", int64(part.Messages[i].Attempt))
		}
		b = append(b, tail...)
	}
	return b
}

// appendTransactionID appends the transaction id, which is the message's own
// id where the producer gave none.
func appendTransactionID(b []byte, m *core.Message) []byte {
	if m.TransactionID == "" {
		return appendIDField(b, "transactionId", m.ID)
	}
	return appendStringField(b, "transactionId", m.TransactionID)
}
