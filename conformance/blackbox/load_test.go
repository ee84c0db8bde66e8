package blackbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// holdSeconds is how long the load's leases last: longer than a request needs, and short enough
// that what a dead consumer held comes back while the test runs.
const holdSeconds = 2

// load pushes and consumes through all three protocols until the server is gone.
type load struct {
	*Clients
	ledger *Ledger
	pipe   *pipeline
	poison *poison
	dice   *dice
	// name makes ids and client ids unique.
	name string
	// dying is set just before the server is killed or stopped; a request that fails earlier is a
	// fault. stopping is set before an orderly end, during which it may refuse requests too.
	dying, stopping atomic.Bool
	// faulty is set where servers and networks fail all the time: then a request that fails is no fault,
	// its fate is unknown, and its worker goes on.
	faulty bool
	next   atomic.Int64
	// requests and failures count the workers' steps.
	requests, failures atomic.Int64
}

// sharedQueue is pushed to and consumed from by all three protocols.
const sharedQueue = "kill-shared"

// run starts the workers, and returns a function that waits for their end.
func (l *load) run(ctx context.Context) (wait func()) {
	var wg sync.WaitGroup
	loop := func(step func(context.Context, string) error, queues ...string) {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				l.requests.Add(1)
				err := l.once(ctx, step, queues[i%len(queues)])
				if err == nil {
					continue
				}
				l.gone(err)
				if !l.faulty {
					return
				}
				l.failures.Add(1)
				time.Sleep(failurePause)
			}
		})
	}
	for range 2 {
		loop(l.queenPush, "kill-queen", sharedQueue)
		loop(l.queratorPush, "kill-querator", sharedQueue)
		loop(l.cfPush, "kill-cf", sharedQueue)
		loop(l.queenConsume, "kill-queen", sharedQueue)
		loop(l.queratorConsumer(), "kill-querator", sharedQueue)
		loop(l.cfConsume, "kill-cf", sharedQueue)
	}
	loop(l.queenPush, pipeIn)
	loop(func(ctx context.Context, _ string) error { return l.pipe.step(ctx, l.Clients, 200) }, pipeIn)
	loop(func(ctx context.Context, _ string) error { return l.poison.push(ctx, l.Clients, l.ids()) }, poisonQueue)
	loop(func(ctx context.Context, _ string) error { return l.poison.fail(ctx, l.Clients) }, poisonQueue)
	return wg.Wait
}

// Where servers fail all the time: how long a step may take, and how long its worker waits after a failure.
const (
	stepTimeout  = 8 * time.Second
	failurePause = 20 * time.Millisecond
)

// mostWaiting is how many messages wait in a queue among failing servers before its pushes make way for its consumers, which faults hold up longer:
// what waits in the end has to be drained.
const mostWaiting = 20_000

// once makes one step, which among failing servers ends by itself.
func (l *load) once(ctx context.Context, step func(context.Context, string) error, queue string) error {
	if !l.faulty {
		return step(ctx, queue)
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return step(ctx, queue)
}

// rejected tells whether an answer says for certain that nothing happened.
func rejected(err error) bool {
	a, refused := Refused(err)
	return refused && (a.Status == 400 || a.Status == 404 || a.Status == 409 || isShutdown(a))
}

// gone notes a failed request, which is right only because the server was killed or stopped.
func (l *load) gone(err error) {
	a, refused := Refused(err)
	switch {
	case l.faulty && (!refused || a.Status >= 408 || isUnknown(a)):
	case refused && l.stopping.Load() && isShutdown(a):
	case refused:
		l.ledger.Fault("refused: %v", err)
	case !l.dying.Load():
		l.ledger.Fault("no answer from a server that lives: %v", err)
	}
}

// isUnknown tells whether an answer says of a push or a transaction that nobody knows what became of it.
func isUnknown(a Answer) bool {
	return a.Status < 300 && strings.Contains(string(a.Body), `"error":"`+unknownOutcome)
}

// isShutdown tells whether an answer is what a protocol says while the server ends.
func isShutdown(a Answer) bool {
	body := string(a.Body)
	return a.Status == 500 && body == `{"error":"pool"}` || // Queen
		a.Status == 453 && strings.Contains(body, "is shutting down") || // Querator
		a.Status == 503 && strings.Contains(body, `"success":false`) && a.Header.Get("X-Should-Retry") == "true" // Cloudflare
}

// ids are new message ids.
func (l *load) ids() []string {
	out := make([]string, l.dice.upTo(20))
	for i := range out {
		out[i] = fmt.Sprintf("%s-%07d", l.name, l.next.Add(1))
	}
	return out
}

// push keeps the ledger around a push.
func (l *load) push(queue string, ids []string, send func() error) error {
	if l.faulty && l.ledger.Waiting(queue) > mostWaiting {
		l.requests.Add(-1) // nothing was asked
		time.Sleep(failurePause)
		return nil
	}
	l.ledger.PushingTo(queue, ids...)
	err := send()
	if err == nil {
		l.ledger.Pushed(ids...)
	} else if rejected(err) {
		l.ledger.NotPushed(ids...)
	}
	return err
}

func (l *load) queenPush(ctx context.Context, queue string) error {
	ids := l.ids()
	items := make([]QueenItem, len(ids))
	for i, id := range ids {
		items[i] = QueenItem{Queue: queue, Partition: strconv.Itoa(l.dice.upTo(3) - 1), Payload: Payload(id)}
	}
	return l.push(queue, ids, func() error {
		if !l.faulty {
			return l.Queen.Push(ctx, items...)
		}
		buffered, err := l.Queen.PushOrBuffer(ctx, items...)
		if buffered > 0 {
			l.ledger.Buffered(ids...)
		}
		return err
	})
}

func (l *load) queratorPush(ctx context.Context, queue string) error {
	ids := l.ids()
	items := make([]QueratorItem, len(ids))
	for i, id := range ids {
		items[i] = QueratorItem{Encoding: "json", Reference: id, Bytes: []byte(Payload(id))}
	}
	return l.push(queue, ids, func() error { return l.Querator.Produce(ctx, queue, items...) })
}

func (l *load) cfPush(ctx context.Context, queue string) error {
	ids := l.ids()
	messages := make([]CfMessage, len(ids))
	for i, id := range ids {
		messages[i] = CfMessage{Body: Payload(id)}
		if l.dice.within(5) {
			messages[i].DelaySeconds = 1
		}
	}
	return l.push(queue, ids, func() error { return l.Cf.Push(ctx, queue, messages...) })
}

// errBehind is a settlement of a message that somebody else had settled by then: what it did to those
// before it in the batch cannot be known.
var errBehind = errors.New("settled before")

// settle keeps the ledger around a settlement that is answered as one.
func (l *load) settle(ids []string, send func() (bool, error)) error {
	l.ledger.Settling(ids...)
	done, err := send()
	switch {
	case errors.Is(err, errBehind):
		return nil
	case err == nil && done:
		l.ledger.Settled(ids...)
	case err == nil || rejected(err):
		l.ledger.NotSettled(ids...)
	}
	return err
}

// queenConsume pops from up to two partitions and completes what it got, most of the time.
func (l *load) queenConsume(ctx context.Context, queue string) error {
	query := popQuery(l.dice.upTo(30), holdSeconds, 200, "")
	query.Set("partitions", "2")
	claimed := time.Now()
	messages, err := l.Queen.Pop(ctx, queue, "", query)
	if err != nil {
		return err
	}
	byPartition := map[string][]QueenMessage{}
	for _, m := range messages {
		l.ledger.Delivered(string(m.Data), claimed)
		byPartition[m.PartitionID] = append(byPartition[m.PartitionID], m)
	}
	for _, batch := range byPartition {
		if err := l.queenSettle(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// queenSettle acknowledges one message, which settles those before it in the batch too, or gives
// the batch back, or forgets it.
func (l *load) queenSettle(ctx context.Context, batch []QueenMessage) error {
	upTo, status := len(batch), "completed"
	switch fate := l.dice.upTo(100); {
	case fate <= 5:
		return nil
	case fate <= 10:
		upTo, status = 1, "retry"
	case fate <= 20:
		upTo = l.dice.upTo(len(batch))
	}
	last := batch[upTo-1]
	ack := QueenAck{TransactionID: last.TransactionID, PartitionID: last.PartitionID, LeaseID: last.LeaseID, Status: status}
	if status == "retry" {
		_, err := l.Queen.Ack(ctx, "", ack)
		return err
	}
	ids := make([]string, upTo)
	for i := range ids {
		ids[i] = PayloadID(string(batch[i].Data))
	}
	return l.settle(ids, func() (bool, error) {
		out, err := l.Queen.Ack(ctx, "", ack)
		if err != nil {
			return false, err
		}
		if out[0].Noop {
			return false, errBehind
		}
		if l.faulty && !out[0].Success && *out[0].Error != "invalid or expired lease" {
			return false, errors.New(*out[0].Error) // the database was away: its fate is unknown
		}
		if !out[0].Success && *out[0].Error != "invalid or expired lease" {
			l.ledger.Fault("ack under a lease: %s", *out[0].Error)
		}
		return out[0].Success, nil
	})
}

// queratorConsumer returns a consumer with a client id of its own.
func (l *load) queratorConsumer() func(context.Context, string) error {
	client := fmt.Sprintf("%s-%d", l.name, l.next.Add(1))
	return func(ctx context.Context, queue string) error {
		claimed := time.Now()
		lease, err := l.Querator.Lease(ctx, queue, client, l.dice.upTo(30), 200*time.Millisecond)
		if err != nil || len(lease.Items) == 0 {
			return err
		}
		ids, messages := make([]string, len(lease.Items)), make([]string, len(lease.Items))
		for i, item := range lease.Items {
			ids[i], messages[i] = item.ID, l.ledger.Delivered(string(item.Bytes), claimed)
		}
		n := len(ids)
		switch {
		case l.dice.within(5):
			return nil
		case l.dice.within(15):
			n = l.dice.upTo(len(ids))
		}
		if err := l.settle(messages[:n], func() (bool, error) {
			return stillLeased(l.Querator.Complete(ctx, queue, lease.Partition, ids[:n]...))
		}); err != nil || n == len(ids) || l.dice.within(50) {
			return err
		}
		_, err = stillLeased(l.Querator.Retry(ctx, queue, lease.Partition, QueratorRetry{ID: ids[n]}))
		return err
	}
}

// stillLeased tells a settlement that came too late, and did nothing, from one that failed.
func stillLeased(err error) (bool, error) {
	if a, refused := Refused(err); refused && a.Status == 400 {
		return false, nil
	}
	return err == nil, err
}

// cfConsume pulls, acknowledges some, gives some back and forgets the rest.
func (l *load) cfConsume(ctx context.Context, queue string) error {
	claimed := time.Now()
	messages, err := l.Cf.Pull(ctx, queue, l.dice.upTo(30), holdSeconds*1000)
	if err != nil {
		return err
	}
	if len(messages) == 0 {
		time.Sleep(10 * time.Millisecond)
		return nil
	}
	var acks, ids []string
	var retries []CfRetry
	forget := l.dice.within(10)
	for _, m := range messages {
		id := l.ledger.Delivered(decodeBody(m), claimed)
		switch {
		case l.dice.within(90):
			acks, ids = append(acks, m.LeaseID), append(ids, id)
		case !forget:
			delay := l.dice.upTo(2) - 1
			retries = append(retries, CfRetry{LeaseID: m.LeaseID, DelaySeconds: &delay})
		}
	}
	return l.cfAck(ctx, queue, acks, ids, retries)
}

// cfAck keeps the ledger around an acknowledgement, whose leases are settled one by one.
func (l *load) cfAck(ctx context.Context, queue string, acks, ids []string, retries []CfRetry) error {
	l.ledger.Settling(ids...)
	out, err := l.Cf.Ack(ctx, queue, acks, retries...)
	if err != nil {
		if rejected(err) {
			l.ledger.NotSettled(ids...)
		}
		return err
	}
	for i, lease := range acks {
		if warning, warned := out.Warnings[lease]; warned {
			l.ledger.NotSettled(ids[i])
			l.ledger.Fault("ack of %q warned: %s", ids[i], warning)
			continue
		}
		l.ledger.Settled(ids[i])
	}
	if slices.Contains(acks, "") || out.AckCount != len(acks) {
		l.ledger.Fault("%d of %d acks counted", out.AckCount, len(acks))
	}
	return nil
}
