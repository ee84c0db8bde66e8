package memory_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/conformance/storetest"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/memory"
)

func TestStore(t *testing.T) { storetest.Run(t, harness()) }

func harness() storetest.Harness {
	const forgets = "the memory store keeps nothing past its Close, by design"
	return storetest.Harness{
		Open: func(testing.TB, string) core.Store { return memory.New() },
		Fail: fail,
		Exceptions: map[string]string{
			"Reopen":          forgets,
			"ReopenAfterKill": forgets,
			"MatchesTheModel": "the memory store is the model",
		},
	}
}

func fail(s core.Store, point storetest.FailPoint) {
	m := s.(*memory.Store) //nolint:forcetypeassert // the harness opened it
	done := false
	m.Inject(func(uuid.UUID) memory.Fault {
		if done {
			return memory.Fault{}
		}
		done = true
		code, stored := core.CodeUnavailable, point == storetest.FailAnswer
		if stored {
			code = core.CodeUnknown
		}
		return memory.Fault{Err: core.Errorf(code, "commit", "injected failure"), Stored: stored}
	})
}

func BenchmarkStore(b *testing.B) { storetest.Bench(b, harness()) }
