package queen_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
)

// oddLog is where the broker of 9.14 logs.
var oddLog = &lockedBuffer{}

// lockedBuffer is a buffer that several brokers may log to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// painRules are what users of the original live with, and this server must not copy.
var painRules = []rule{
	{covers: "9.1", run: painQuickstart},
	{covers: "9.7, 5.4 roles", options: queen.Options{Auth: queen.Auth{Secret: []byte(secretKey)}}, run: ruleRoles},
	{covers: "9.10", run: painMalformed},
	{covers: "9.12", run: painConcurrentPushes},
	{covers: "9.13", run: painNames},
	{covers: "9.14", options: queen.Options{Logger: slog.New(slog.NewTextHandler(oddLog, nil))}, run: painOddStatus},
	{covers: "9.1 wake", run: painWake},
	{covers: "9.1 read after write", run: painReadAfterWrite},
	{covers: "9.1 statuses", run: painStatuses},
	{covers: "9.1 discovery and parameters", run: painParameters},
	{covers: "9.1 payload bytes", run: painPayloads},
	{covers: "9.1 repeated acks", run: painRepeatedAcks},
	{covers: "9.1 transactions", run: painTransactions},
	{covers: "9.1 empty batch", run: painEmptyBatch},
	{covers: "9.1 bad item", run: painBadItem},
	{covers: "9.1 lone push", run: painLonePush},
}

func painQuickstart(t *testing.T, b *broker) {
	t.Helper()
	b.numbers(t, "Default", 35)
	seen := map[string]int{}
	for {
		p := b.pop(t, "/queue/in?batch=10&autoAck=true&wait=false&timeout=30000")
		if len(p.Messages) == 0 {
			break
		}
		for _, id := range p.ids() {
			seen[id]++
		}
	}
	assert.Len(t, seen, 35)
	b.clock.Advance(time.Hour)
	assert.Empty(t, b.pop(t, "/queue/in?batch=10&autoAck=true").Messages, "nothing is processed again")
	parked := b.park(t.Context(), t, "in", "/queue/in?batch=10&autoAck=true&wait=true&timeout=30000")
	b.numbers(t, "Default", 1)
	assert.Len(t, asPopped(t, <-parked).Messages, 1, "and nothing hangs")
}

func painMalformed(t *testing.T, b *broker) {
	t.Helper()
	for _, body := range []string{
		"{\"items\":[{\"queue\":\"q\",\"payload\":\"\xff\"}]}", "{\"items\":[{\"queue\":\"q\xc3\",\"payload\":1}]}", "\xff\xfe",
		"{\"items\":[{\"queue\":\"q\",\"payload\":\"\xed\xa0\x80\"}]}", `{"items":[{"queue":"\ud800","payload":1}]}`,
	} {
		r := b.do(t, http.MethodPost, "/api/v1/push", body)
		assert.Equal(t, 400, r.status, "%q", body)
		assert.Contains(t, r.body, `{"error":"bad body: `)
	}
	assert.Equal(t, 400, b.do(t, http.MethodGet, "/api/v1/pop/queue/%ff", "").status)
	assert.Equal(t, 400, b.do(t, http.MethodPost, "/api/v1/traces", "{\"data\":\"\xff\"}").status)
	assert.Equal(t, 400, b.do(t, http.MethodPost, "/streams/v1/cycle", "{\"ack\":\"\xff\"}").status)
	b.pushIDs(t, "q", "a", "1")
	assert.Len(t, b.pop(t, "/queue/q").Messages, 1, "and the server lives")
}

// painConcurrentPushes pushes from many producers while one consumer reads: no cursor passes a message.
func painConcurrentPushes(t *testing.T, b *broker) {
	t.Helper()
	const producers, each = 8, 40
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				_, _ = b.send(t.Context(), http.MethodPost, "/api/v1/push", fmt.Sprintf(`{"items":[{"queue":"q","payload":{"n":%d},"transactionId":"%d-%d"}]}`, i, p, i))
			}
		})
	}
	last := map[string]int{}
	read := func() int {
		p := b.pop(t, "/queue/q?batch=50&autoAck=true&consumerGroup=g")
		for _, m := range p.Messages {
			producer, _, _ := strings.Cut(m.TransactionID, "-")
			require.Equal(t, last[producer], number(t, m.Data), "next of producer %s", producer)
			last[producer]++
		}
		return len(p.Messages)
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		read()
	}
	for read() > 0 {
		continue // the rest
	}
	for p := range producers {
		assert.Equal(t, each, last[strconv.Itoa(p)])
	}
}

func painNames(t *testing.T, b *broker) {
	t.Helper()
	b.push(t, `{"items":[{"queue":"a\"b\\c\u00e9\n","partition":"p\t","payload":1,"transactionId":"t\/\u0000"}]}`)
	p := b.pop(t, "/queue/"+escapeAll("a\"b\\cé\n")+"/partition/"+escapeAll("p\t"))
	assert.Equal(t, []string{"t/\x00"}, p.ids())
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, `t/\u0000=completed`)[0].Success)
	b.pushIDs(t, "q", "a", "1")
	b.clock.Advance(time.Second)
	assert.Empty(t, b.pop(t, "/queue/q?consumerGroup=g&subscriptionMode=new-only").Messages)
}

func painOddStatus(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	p := b.pop(t, "/queue/q")
	assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "1=complete")[0].LeaseReleased, "counts as failed")
	assert.Contains(t, oddLog.String(), "unknown status")
	b.configure(t, "kept", `"retentionSeconds":60`)
	assert.Contains(t, oddLog.String(), "no effect without retentionEnabled", "and so is retention that is not switched on")
	require.NoError(t, b.engine.Shutdown(t.Context()))
	r := b.do(t, http.MethodPost, "/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`)
	assert.Equal(t, 500, r.status, "a fault is no success")
	exactly(t, `{"error":"pool"}`, r.body)
}

func painWake(t *testing.T, b *broker) {
	t.Helper()
	parked := b.park(t.Context(), t, "q", "/queue/q?wait=true&timeout=30000")
	for range 5 { // the original's poll has backed off by now; the clock alone must not be needed
		b.clock.Advance(time.Second)
	}
	b.pushIDs(t, "q", "a", "1")
	assert.Equal(t, []string{"1"}, asPopped(t, <-parked).ids(), "with the clock standing still")
	parked = b.park(t.Context(), t, "r", "/queue/r?wait=true&timeout=500")
	b.clock.Advance(499 * time.Millisecond)
	assert.Equal(t, 1, b.waiting(t, "r", ""))
	b.clock.Advance(time.Millisecond)
	assert.Equal(t, 204, (<-parked).status, "500 ms take 500 ms")
}

func painReadAfterWrite(t *testing.T, b *broker) {
	t.Helper()
	for i := range 50 {
		partition := fmt.Sprint("p", i%10)
		b.pushIDs(t, "q", partition, strconv.Itoa(i))
		assert.Equal(t, []string{strconv.Itoa(i)}, b.pop(t, "/queue/q?autoAck=true").ids())
	}
}

func painStatuses(t *testing.T, b *broker) {
	t.Helper()
	assert.Equal(t, 201, b.do(t, http.MethodPost, "/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`).status)
	assert.Equal(t, 204, b.do(t, http.MethodGet, "/api/v1/pop/queue/empty", "").status)
	assert.Equal(t, 200, b.do(t, http.MethodGet, "/api/v1/pop/queue/q", "").status)
	assert.Equal(t, 400, b.do(t, http.MethodPost, "/api/v1/push", `{}`).status)
	assert.Equal(t, 404, b.do(t, http.MethodGet, "/api/v1/resources/queues/none", "").status)
	assert.Equal(t, 404, b.do(t, http.MethodGet, "/api/v1/unknown", "").status)
}

func painParameters(t *testing.T, b *broker) {
	t.Helper()
	for _, p := range []string{"a", "b", "c/d e"} {
		b.pushIDs(t, "ns.task", p, p)
	}
	assert.Len(t, b.pop(t, "?namespace=ns&partitions=0&consumerGroup=g").Messages, 3)
	assert.Equal(t, []string{"c/d e"}, b.pop(t, "/queue/ns.task/partition/c%2Fd%20e?leaseSeconds=5").ids())
	b.clock.Advance(5 * time.Second)
	assert.Len(t, b.pop(t, "/queue/ns.task?partitions=0").Messages, 3, "leaseSeconds counted, and 0 is no cap")
}

func painPayloads(t *testing.T, b *broker) {
	t.Helper()
	for _, payload := range []string{
		`{"z":1,"a":2,"z":3}`, `12345678901234567890123`, `1.0`, `1e400`, `-0`, `{"k":[ 1 , 2 ],  "<&>":"\u003c\u00e9é"}`, `"\ud83d\ude00 😀"`, `0.1000`,
	} {
		b.push(t, `{"items":[{"queue":"q","payload":`+payload+`}]}`)
		assert.Contains(t, b.do(t, http.MethodGet, "/api/v1/pop/queue/q?autoAck=true", "").body, `"data":`+payload+`,"producerSub"`)
	}
}

func painRepeatedAcks(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1", "2", "3", "4", "5")
	p := b.pop(t, "/queue/q?batch=5")
	for range 8 {
		assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed")[0].Success)
	}
	assert.Empty(t, b.pop(t, "/queue/q").Messages, "a repeated ack does not free the lease")
	b.ack(t, "", p.PartitionID, p.LeaseID, "4=completed")
	b.ack(t, "", p.PartitionID, p.LeaseID, "2=completed")
	b.clock.Advance(time.Hour)
	assert.Equal(t, []string{"5"}, b.pop(t, "/queue/q?batch=5").ids(), "and one out of order moves nothing back")
}

func painTransactions(t *testing.T, b *broker) {
	t.Helper()
	b.pushIDs(t, "q", "a", "1")
	p := b.pop(t, "/queue/q")
	out := b.transact(t, `{"operations":[`+ackOp("1", p.PartitionID, "")+`],"requiredLeases":["`+nobody+`"]}`)
	assert.Contains(t, out.Error, "invalid or expired lease")
	assert.False(t, b.transact(t, tx(ackOp("1", p.PartitionID, `,"status":"failed"`))).Results[0].DLQ)
	assert.Equal(t, []string{"1"}, b.pop(t, "/queue/q").ids())
	assert.Empty(t, b.letters(t, ""))
}

func painEmptyBatch(t *testing.T, b *broker) {
	t.Helper()
	assert.Equal(t, "[]", b.post(t, "/api/v1/ack/batch", `{"acknowledgments":[]}`, 200))
	assert.Equal(t, "[]", b.post(t, "/api/v1/ack/batch", `{"acknowledgments":[],"consumerGroup":null}`, 200))
}

// painBadItem pushes bad items beside good ones of other clients: each gets its own answer, at once.
func painBadItem(t *testing.T, b *broker) {
	t.Helper()
	var wg sync.WaitGroup
	statuses := make([]int, 60)
	for i := range statuses {
		body := fmt.Sprintf(`{"items":[{"queue":"q","payload":%d,"traceId":"no-uuid"}]}`, i)
		switch i % 3 {
		case 1:
			body = `{"items":[{"queue":"q","payload":1},{"queue":"q","partition":"a\u001fb","payload":1}]}`
		case 2:
			body = fmt.Sprintf(`{"items":[{"queue":"q","payload":"nul \u0000 %d","transactionId":"\u0000%d"}]}`, i, i)
		}
		wg.Go(func() {
			r, _ := b.send(t.Context(), http.MethodPost, "/api/v1/push", body)
			statuses[i] = r.status
		})
	}
	wg.Wait()
	for i, status := range statuses {
		assert.Equal(t, map[int]int{0: 201, 1: 400, 2: 201}[i%3], status)
	}
	assert.Len(t, b.pop(t, "/queue/q?batch=100").Messages, 40, "nothing of a refused request is stored")
}

func painLonePush(t *testing.T, b *broker) {
	t.Helper()
	before := b.clock.Now()
	b.pushIDs(t, "q", "a", "1") // would hang on any timer: the clock stands still
	assert.Equal(t, before, b.clock.Now())
	assert.True(t, slices.Equal([]string{"1"}, b.pop(t, "/queue/q").ids()))
}
