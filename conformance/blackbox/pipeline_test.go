package blackbox

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// The two queues of the pipeline.
const (
	pipeIn  = "kill-pipe-in"
	pipeOut = "kill-pipe-out"
)

// pipeline moves messages from one queue to another with Queen transactions. Each source must
// come out exactly once, however often the server dies in between.
type pipeline struct {
	ledger *Ledger
	mu     sync.Mutex
	// outs lists what was pushed for a source, one for each attempt.
	outs map[string][]string
	// journals are by partition of the entrance. Nobody else reads there, so Queen's order has to
	// hold through every crash.
	journals map[string]*Journal
	// disorder counts what was out of order, once checked.
	disorder int
}

func newPipeline(ledger *Ledger) *pipeline {
	return &pipeline{ledger: ledger, outs: map[string][]string{}, journals: map[string]*Journal{}}
}

func (p *pipeline) journal(partition string) *Journal {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.journals[partition] == nil {
		p.journals[partition] = &Journal{}
	}
	return p.journals[partition]
}

// attempt returns the id of the next message for a source.
func (p *pipeline) attempt(source string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := fmt.Sprintf("%s/%d", source, len(p.outs[source])+1)
	p.outs[source] = append(p.outs[source], out)
	return out
}

// step moves one batch. It waits for one as long as waitMillis.
func (p *pipeline) step(ctx context.Context, c *Clients, waitMillis int) error {
	_, err := p.move(ctx, c, waitMillis)
	return err
}

// move returns how many messages it saw.
func (p *pipeline) move(ctx context.Context, c *Clients, waitMillis int) (int, error) {
	claimed := time.Now()
	batch, err := c.Queen.Pop(ctx, pipeIn, "", popQuery(8, holdSeconds, waitMillis, ""))
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	var sources, outs []string
	var pushes []QueenItem
	var acks []QueenAck
	for _, m := range batch {
		source := p.ledger.Delivered(string(m.Data), claimed)
		out := p.attempt(source)
		sources, outs = append(sources, source), append(outs, out)
		pushes = append(pushes, QueenItem{Queue: pipeOut, Payload: Payload(out)})
		acks = append(acks, QueenAck{TransactionID: m.TransactionID, PartitionID: m.PartitionID, LeaseID: m.LeaseID})
	}
	entry := p.journal(batch[0].Partition).Delivered(sources)
	entry.Settling(len(sources))
	p.ledger.Pushing(outs...)
	p.ledger.Settling(sources...)
	committed, err := c.Queen.Transact(ctx, pushes, acks, batch[0].LeaseID)
	refused := rejected(err)
	if err == nil || refused {
		entry.Settled(len(sources), committed)
	}
	switch {
	case err == nil && committed:
		p.ledger.Pushed(outs...)
		p.ledger.Settled(sources...)
	case err == nil || refused:
		p.ledger.NotPushed(outs...)
		p.ledger.NotSettled(sources...)
	}
	return len(batch), err
}

// check holds the outcome against "exactly once" and returns how many sources went through.
func (p *pipeline) check() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for partition, j := range p.journals {
		order, settled, faults := j.Check(func(string) bool { return true })
		// A push without an answer may have come to pass long after its successors, and so may one that was buffered.
		answered := slices.DeleteFunc(slices.Clone(order), func(id string) bool { return !p.ledger.Placed(id) })
		for _, fault := range append(faults, producersOrder(answered)...) {
			p.ledger.Fault("partition %s of %s: %s", partition, pipeIn, fault)
			p.disorder++
		}
		if settled != len(order) {
			p.ledger.Fault("partition %s of %s: %d of %d went through", partition, pipeIn, settled, len(order))
		}
	}
	for source, outs := range p.outs {
		n := 0
		for _, out := range outs {
			if p.ledger.Deliveries(out) > 0 {
				n++
			}
		}
		if n != 1 {
			p.ledger.Fault("%q came out %d times in %d attempts", source, n, len(outs))
		}
	}
	return len(p.outs)
}
