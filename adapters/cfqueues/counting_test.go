package cfqueues

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whoever asks while a count runs gets the next one, together with the others.
func TestCountsAreSharedButNeverStale(t *testing.T) {
	var pushed, counts atomic.Int64
	started, goOn := make(chan struct{}), make(chan struct{})
	c := newCounter(func(context.Context, counted) (metrics, error) {
		counts.Add(1)
		m := metrics{BacklogCount: pushed.Load()}
		started <- struct{}{}
		<-goOn
		return m, nil
	}, nil)
	var wg sync.WaitGroup
	ask := func(least int64) {
		wg.Go(func() {
			m, err := c.metrics(t.Context(), counted{name: "jobs"})
			assert.True(t, err == nil && m.BacklogCount >= least, "%v %v", m, err)
		})
	}
	ask(0)
	<-started
	for range 20 {
		ask(pushed.Add(1))
	}
	goOn <- struct{}{}
	<-started
	close(goOn)
	go func() {
		for range started {
		}
	}()
	wg.Wait()
	close(started)
	assert.LessOrEqual(t, counts.Load(), int64(21))
	assert.GreaterOrEqual(t, counts.Load(), int64(2))
	assert.Empty(t, c.running, "nothing is kept when nobody asks")
}

func TestCountThatFails(t *testing.T) {
	broken := errors.New("broken")
	c := newCounter(func(context.Context, counted) (metrics, error) { return metrics{}, broken }, nil)
	_, err := c.metrics(t.Context(), counted{name: "jobs"})
	require.ErrorIs(t, err, broken)
	assert.Empty(t, c.running)
}

func TestSlowCountIsShownAgainForAWhile(t *testing.T) {
	clock, took := time.Unix(1_700_000_000, 0), time.Duration(0)
	var n int64
	c := newCounter(func(context.Context, counted) (metrics, error) {
		n++
		clock = clock.Add(took)
		return metrics{BacklogCount: n}, nil
	}, func() time.Time { return clock })
	about := func() int64 {
		m, err := c.about(t.Context(), counted{name: "jobs"})
		require.NoError(t, err)
		return m.BacklogCount
	}
	took = slowCount - 1
	assert.EqualValues(t, 1, about())
	assert.EqualValues(t, 2, about(), "a quick count is made anew")
	took = slowCount
	assert.EqualValues(t, 3, about())
	clock = clock.Add(slowCount*slowFactor - 1)
	assert.EqualValues(t, 3, about())
	m, err := c.metrics(t.Context(), counted{name: "jobs"})
	require.NoError(t, err)
	assert.EqualValues(t, 4, m.BacklogCount, "metrics always counts")
	took = time.Minute
	clock = clock.Add(time.Hour)
	assert.EqualValues(t, 5, about())
	clock = clock.Add(slowMost - 1)
	assert.EqualValues(t, 5, about())
	clock = clock.Add(1)
	assert.EqualValues(t, 6, about())
}
