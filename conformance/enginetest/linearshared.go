package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// linearMessages is how many messages the shared history is about.
const linearMessages = 12

// The calls of shared clients.
type (
	pullIn  struct{ n int }
	pullOut struct {
		offsets  []int64
		attempts []int32
		lease    []uuid.UUID
		until    core.Time
	}
	tokenIn struct {
		offset int64
		lease  uuid.UUID
		retry  bool
	}
	tokenOut struct{ code core.Code }
)

// shared is a message as pullers see it.
type shared struct {
	standing
	lease    uuid.UUID
	until    core.Time
	attempts int32
}

type pullState struct {
	clock    core.Time
	messages [linearMessages]shared
}

func (s *pullState) claimable(m *shared) bool {
	return m.standing == fresh || m.standing == back || m.standing == held && m.until <= s.clock
}

func pullStep(state, input, output any) (bool, any) {
	s := state.(pullState) //nolint:forcetypeassert // the checker hands back what it was given
	switch in := input.(type) {
	case advanceIn:
		s.clock = s.clock.Add(in.d)
	case pullIn:
		return s.pull(in, output.(pullOut)) //nolint:forcetypeassert // as above
	case tokenIn:
		return s.settle(in, output.(tokenOut)) //nolint:forcetypeassert // as above
	}
	return true, s
}

func (s pullState) pull(in pullIn, out pullOut) (bool, any) {
	n := 0
	for i := range s.messages {
		if s.claimable(&s.messages[i]) {
			n++
		}
	}
	if len(out.offsets) != min(n, in.n) || n > 0 && out.until != s.clock.Add(linearLease) {
		return false, s
	}
	for i, off := range out.offsets {
		m := &s.messages[off-1]
		if !s.claimable(m) || out.attempts[i] != m.attempts+1 {
			return false, s
		}
		m.standing, m.lease, m.until = held, out.lease[i], out.until
		m.attempts++
	}
	return true, s
}

func (s pullState) settle(in tokenIn, out tokenOut) (bool, any) {
	m := &s.messages[in.offset-1]
	if !in.retry {
		m.standing = settled
		return out.code == core.CodeInternal, s
	}
	over := m.standing == held && m.until <= s.clock // it may be noticed by this call or have been before
	switch {
	case m.standing == settled || m.standing == fresh:
		return out.code == core.CodeNoMessage, s
	case m.standing == back, m.standing == held && m.lease == in.lease, over && out.code == core.CodeInternal:
		m.standing = back
		return out.code == core.CodeInternal, s
	default:
		return out.code == core.CodeNotLeased, s
	}
}

func linearShared(r *rig) {
	r.queue("q", core.ProtocolCloudflare, cloudflare(1000, time.Minute))
	r.push("q", 1, linearMessages)
	part := r.partition("q").ID
	model := porcupine.Model{
		Init: func() any { return pullState{clock: core.TimeOf(epoch)} }, Step: pullStep,
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
	}
	r.linear(model, func(id int, h *history) {
		var mine []core.MessageToken
		for range linearOps {
			if n := rand.IntN(10); n < 4 || len(mine) == 0 {
				mine = append(mine, r.linearPull(h, id, part)...)
				continue
			}
			token := mine[rand.IntN(len(mine))]
			in := tokenIn{token.Offset, token.Lease, rand.IntN(4) != 0}
			h.do(id, in, func() any {
				s := core.MessageSettlement{MessageToken: token}
				if in.retry {
					s.Outcome = core.OutcomeRetry
				}
				out, err := r.SettleMessages(context.Background(), "q", []core.MessageSettlement{s})
				if err != nil {
					panic(err)
				}
				return tokenOut{out[0].Code}
			})
		}
	})
}

func (r *rig) linearPull(h *history, id int, part uuid.UUID) (tokens []core.MessageToken) {
	n := 1 + rand.IntN(5)
	h.do(id, pullIn{n}, func() any {
		c, err := r.Claim(context.Background(), core.ClaimParams{
			Protocol: core.ProtocolCloudflare, Queue: "q", Messages: n, Lease: linearLease,
		})
		if err != nil {
			panic(err)
		}
		var out pullOut
		for _, cp := range c.Partitions {
			for i := range cp.Messages {
				d := &cp.Messages[i]
				out.offsets, out.attempts = append(out.offsets, d.Offset), append(out.attempts, d.Attempt)
				out.lease, out.until = append(out.lease, d.Lease), d.Until
				tokens = append(tokens, core.MessageToken{Partition: part, Offset: d.Offset, Message: d.ID, Lease: d.Lease})
			}
		}
		return out
	})
	return tokens
}
