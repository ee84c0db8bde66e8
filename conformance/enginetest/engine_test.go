package enginetest_test

import (
	"testing"

	"github.com/leasehold/leasehold/conformance/enginetest"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/memory"
)

// stores are the stores that every test of the engine runs over.
var stores = map[string]enginetest.Open{
	"memory": func(*testing.T) core.Store { return memory.New() },
}

func TestWalks(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) { enginetest.Walks(t, open) })
	}
}

func BenchmarkEngine(b *testing.B) {
	for name, open := range map[string]func(*testing.B) core.Store{
		"memory": func(*testing.B) core.Store { return memory.New() },
	} {
		b.Run(name, func(b *testing.B) { enginetest.Bench(b, open) })
	}
}
