package enginetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// Linearizable runs claims, settlements, pushes and seeks of many clients at once, with a clock that one of them moves, and has
// a checker find an order in which each answer is right. Exclusive and shared claims have a history of their own each.
func Linearizable(t *testing.T, open Open) {
	rounds := 6
	if testing.Short() {
		rounds = 1
	}
	for i := range rounds {
		t.Run(fmt.Sprint("exclusive ", i), func(t *testing.T) { linearExclusive(newRig(t, open)) })
		t.Run(fmt.Sprint("shared ", i), func(t *testing.T) { linearShared(newRig(t, open)) })
	}
}

const (
	linearClients = 5
	linearOps     = 40
	linearLease   = 10 * time.Second
)

// history collects what clients did, with the real time at which each call began and ended.
type history struct {
	mu  sync.Mutex
	ops []porcupine.Operation
}

func (h *history) do(client int, in any, run func() any) any {
	call := time.Now().UnixNano()
	out := run()
	end := time.Now().UnixNano()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: end})
	return out
}

func (r *rig) linear(model porcupine.Model, client func(id int, h *history)) {
	r.t.Helper()
	var h history
	var wg sync.WaitGroup
	for id := range linearClients {
		wg.Go(func() { client(id, &h) })
	}
	wg.Add(1)
	go func() {
		defer wg.Done()
		for range linearOps / 2 {
			d := time.Duration(1+rand.IntN(6)) * time.Second
			h.do(linearClients, advanceIn{d}, func() any {
				r.clock.Advance(d)
				return nil
			})
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		}
	}()
	wg.Wait()
	result, info := porcupine.CheckOperationsVerbose(model, h.ops, 30*time.Second)
	if result == porcupine.Illegal {
		require.Fail(r.t, "no order of the calls explains the answers", "%s", h.explain(model, &info))
	}
}

// explain shows the longest order that was found, and the calls that do not fit behind it.
func (h *history) explain(model porcupine.Model, info *porcupine.LinearizationInfo) string {
	var longest []int
	for _, partition := range info.PartialLinearizations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	state, placed, text := model.Init(), map[int]bool{}, "the longest order ends with\n"
	for i, op := range longest {
		_, state = model.Step(state, h.ops[op].Input, h.ops[op].Output)
		placed[op] = true
		if i >= len(longest)-6 {
			text += fmt.Sprintf("  %s\n    %+v\n", model.DescribeOperation(h.ops[op].Input, h.ops[op].Output), state)
		}
	}
	text += "and does not go on with\n"
	end := int64(math.MaxInt64)
	for i := range h.ops {
		if !placed[i] {
			end = min(end, h.ops[i].Return)
		}
	}
	for i := range h.ops {
		if op := &h.ops[i]; !placed[i] && op.Call <= end {
			text += "  " + model.DescribeOperation(op.Input, op.Output) + "\n"
		}
	}
	return text
}

type advanceIn struct{ d time.Duration }

// The calls of exclusive clients.
type (
	popIn  struct{ n int64 }
	popOut struct {
		first, last int64
		lease       uuid.UUID
		until       core.Time
	}
	ackIn struct {
		lease  uuid.UUID
		offset int64
		status core.AckStatus
	}
	ackOut struct {
		code     core.Code
		failed   bool
		noop     bool
		released bool
	}
	extendIn  struct{ lease uuid.UUID }
	extendOut struct{ out core.Extended }
	addIn     struct{}
	seekIn    struct{}
)

// popState is one group on one partition as Queen sees it: settled up to a point, and one lease behind it.
type popState struct {
	clock         core.Time
	head, settled int64
	began         bool
	lease         uuid.UUID
	last          int64
	until         core.Time
}

func (s *popState) live() bool { return s.lease != uuid.UUID{} && s.until > s.clock }

func (s *popState) settle(upto int64) {
	s.settled = max(s.settled, upto)
	if s.live() && s.settled >= s.last {
		s.lease = uuid.UUID{}
	}
}

func popStep(state, input, output any) (bool, any) {
	s := state.(popState) //nolint:forcetypeassert // the checker hands back what it was given
	switch in := input.(type) {
	case advanceIn:
		s.clock = s.clock.Add(in.d)
	case addIn:
		s.head++
	case seekIn:
		s.settled, s.lease, s.began = 0, uuid.UUID{}, true
	case popIn:
		out := output.(popOut) //nolint:forcetypeassert // as above
		if out.first == 0 {
			return s.live() || s.settled == s.head, s
		}
		ok := !s.live() && out.first == s.settled+1 && out.last == min(s.head, s.settled+in.n) && out.until == s.clock.Add(linearLease)
		s.lease, s.last, s.until, s.began = out.lease, out.last, out.until, true
		return ok, s
	case extendIn:
		out := output.(extendOut).out //nolint:forcetypeassert // as above
		if !s.live() || s.lease != in.lease {
			return out == core.Extended{}, s
		}
		s.until = max(s.until, s.clock.Add(2*linearLease))
		return out == core.Extended{Renewed: 1, Until: s.until}, s
	case ackIn:
		return s.ack(in, output.(ackOut)) //nolint:forcetypeassert // as above
	}
	return true, s
}

func (s popState) ack(in ackIn, out ackOut) (bool, any) {
	live, leaseless := s.live(), in.lease == uuid.UUID{}
	failed := func(code core.Code) (bool, any) { return out == ackOut{code: code, failed: true}, s }
	switch {
	case !s.began:
		return failed(core.CodeNoConsumer)
	case !leaseless && (!live || s.lease != in.lease):
		return failed(core.CodeLeaseLost)
	case in.offset > s.head:
		return failed(core.CodeUnresolvable)
	case in.offset <= s.settled && in.status == core.AckCompleted:
		return out == ackOut{noop: true}, s
	case in.offset <= s.settled:
		return failed(core.CodeCommitted)
	case !leaseless && in.offset > s.last:
		return failed(core.CodeUnresolvable)
	case in.status == core.AckCompleted:
		s.settle(in.offset)
		return out == ackOut{released: live && s.lease == uuid.UUID{}}, s
	case !live || in.offset > s.last:
		return failed(core.CodeLeaseLost)
	default:
		s.settled, s.lease = max(s.settled, in.offset-1), uuid.UUID{}
		return out == ackOut{released: true}, s
	}
}

func linearExclusive(r *rig) {
	r.queue("q", core.ProtocolQueen)
	part := r.partition("q").ID
	model := porcupine.Model{
		Init: func() any { return popState{clock: core.TimeOf(epoch)} }, Step: popStep,
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
	}
	var names sync.Map
	pushed := 0
	var mu sync.Mutex
	r.linear(model, func(id int, h *history) {
		lease, offset := uuid.UUID{}, int64(1)
		for range linearOps {
			switch n := rand.IntN(20); {
			case n < 4:
				h.do(id, addIn{}, func() any {
					mu.Lock()
					defer mu.Unlock()
					pushed++
					r.push("q", pushed, pushed)
					names.Store(int64(pushed), nil)
					return nil
				})
			case n < 10:
				if out := r.linearPop(h, id); out.first != 0 {
					lease, offset = out.lease, out.first+rand.Int64N(out.last-out.first+1)
				}
			case n < 17:
				in := ackIn{lease, offset, core.AckCompleted}
				if n == 10 {
					in.lease = uuid.UUID{}
				} else if n < 13 {
					in.status = core.AckRetry
				}
				if _, ok := names.Load(in.offset); ok {
					r.linearAck(h, id, part, in)
				}
			case n < 19:
				h.do(id, extendIn{lease}, func() any {
					out, err := r.Extend(context.Background(), core.ExtendParams{Lease: lease, For: 2 * linearLease})
					if err != nil {
						panic(err)
					}
					return extendOut{out}
				})
			default:
				h.do(id, seekIn{}, func() any {
					if _, err := r.Seek(context.Background(), core.SeekParams{Queue: "q", Group: "g", At: 1}); err != nil {
						panic(err)
					}
					return nil
				})
			}
		}
	})
}

func (r *rig) linearPop(h *history, id int) popOut {
	n := 1 + rand.Int64N(4)
	return h.do(id, popIn{n}, func() any {
		c, err := r.Claim(context.Background(), core.ClaimParams{
			Protocol: core.ProtocolQueen, Exclusive: true, Queue: "q", Group: "g", Messages: int(n), Lease: linearLease,
		})
		if err != nil {
			panic(err)
		}
		offs := batch{c.Lease, c}.offsets()
		if len(offs) == 0 {
			return popOut{}
		}
		for i, off := range offs {
			if off != offs[0]+int64(i) {
				panic(fmt.Sprint("out of order: ", offs))
			}
		}
		return popOut{offs[0], offs[len(offs)-1], c.Lease, c.Partitions[0].Messages[0].Until}
	}).(popOut) //nolint:forcetypeassert // made above
}

func (r *rig) linearAck(h *history, id int, part uuid.UUID, in ackIn) {
	h.do(id, in, func() any {
		out, err := r.Ack(context.Background(), []core.Ack{
			{Partition: part, TransactionID: fmt.Sprint("m", in.offset), Group: "g", Lease: in.lease, Status: in.status},
		})
		if err != nil {
			panic(err)
		}
		a := ackOut{failed: out[0].Err != nil, noop: out[0].Noop, released: out[0].Released}
		if a.failed {
			a.code = core.CodeOf(out[0].Err)
		}
		return a
	})
}
