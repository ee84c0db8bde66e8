package blackbox

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// number reads a setting from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("%s: %q is not a number above 0", name, v)
	}
	return n
}

// duration reads a setting from the environment.
func duration(t *testing.T, name string, otherwise time.Duration) time.Duration {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		t.Fatalf("%s: %q is not a duration above 0", name, v)
	}
	return d
}

// dice are random decisions that a seed repeats as far as the timing of goroutines allows.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

// newDice reads the seed, or takes one from the clock, and prints it.
func newDice(t *testing.T) *dice {
	t.Helper()
	seed := uint64(number(t, "LEASEHOLD_SEED", int(time.Now().UnixNano()%1_000_000_007)+1)) //nolint:gosec // above 0
	t.Logf("LEASEHOLD_SEED=%d", seed)
	return &dice{r: rand.New(rand.NewPCG(seed, 0))}
}

// upTo returns a number from 1 to n.
func (d *dice) upTo(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return 1 + d.r.IntN(n)
}

// within is true in percent of all calls.
func (d *dice) within(percent int) bool { return d.upTo(100) <= percent }
