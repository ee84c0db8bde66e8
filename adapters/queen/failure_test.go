package queen_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/leasehold/leasehold/adapters/queen"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/memory"
)

// failing makes every commit fail with a code until it is called with 0.
func (b *broker) failing(code core.Code) {
	b.store.Inject(func(uuid.UUID) memory.Fault {
		if code == 0 {
			return memory.Fault{}
		}
		return memory.Fault{Err: core.Errorf(code, "commit", "the cable is out")}
	})
}

func TestStoreFailuresInTheProtocolsWords(t *testing.T) {
	for code, want := range map[core.Code]string{
		core.CodeUnavailable: `{"error":"pool"}`,
		core.CodeFull:        `{"error":"storage is full"}`,
		core.CodeReadOnly:    `{"error":"storage is read-only"}`,
	} {
		t.Run(code.String(), func(t *testing.T) {
			b := newBroker(t, queen.Options{})
			b.pushIDs(t, "q", "Default", "1", "2")
			p := b.pop(t, "/queue/q?batch=1")
			b.failing(code)
			r := b.do(t, http.MethodPost, "/api/v1/push", `{"items":[{"queue":"q","payload":1,"transactionId":"3"}]}`)
			assert.Equal(t, http.StatusInternalServerError, r.status)
			assert.Equal(t, want, r.body)
			r = b.do(t, http.MethodPost, "/api/v1/transaction", `{"operations":[`+ackOp("1", p.PartitionID, "")+`,`+pushOp("q", "4")+`]}`)
			assert.Equal(t, http.StatusInternalServerError, r.status)
			assert.Equal(t, want, r.body)
			a := b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed")[0]
			assert.False(t, a.Success)
			assert.Equal(t, "ack flush failed; lease will expire and redeliver", a.text())
			r = b.do(t, http.MethodGet, "/api/v1/pop/queue/q?consumerGroup=other", "")
			assert.Equal(t, http.StatusInternalServerError, r.status, "a fault is not an empty pop")
			assert.Contains(t, []string{`{"error":"pool"}`, `{"error":"pop failed"}`}, r.body, "what the store says is for the log")

			b.failing(0)
			assert.True(t, b.ack(t, "", p.PartitionID, p.LeaseID, "1=completed")[0].LeaseReleased)
			assert.Equal(t, []string{"2"}, b.pop(t, "/queue/q?batch=10").ids())
			assert.Equal(t, []string{"1", "2"}, b.pop(t, "/queue/q?batch=10&consumerGroup=other").ids())
		})
	}
}

// unsure is a store that cannot say whether a commit took place.
type unsure struct{ core.Store }

// Outcome implements core.Ledger.
func (*unsure) Outcome(context.Context, uuid.UUID) (bool, error) {
	return false, core.Errorf(core.CodeUnavailable, "outcome", "the cable is out")
}

func TestUnknownOutcomeIsNoInvitationToRepeat(t *testing.T) {
	store := memory.New()
	b := newBrokerOver(t, &unsure{store}, queen.Options{})
	b.store = store
	b.pushIDs(t, "q", "Default", "1")
	b.failing(core.CodeUnknown)
	out := b.push(t, `{"items":[{"queue":"q","payload":1}]}`)
	assert.Equal(t, "failed", out[0].Status)
	assert.Equal(t, "outcome unknown, the change may have been stored", out[0].Error)
	tx := b.transact(t, `{"operations":[`+pushOp("q", "2")+`]}`)
	assert.False(t, tx.Success)
	assert.Equal(t, "outcome unknown, the change may have been stored", tx.Error)
}
