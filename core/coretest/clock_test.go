package coretest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

func TestClockCallsWhatIsDue(t *testing.T) {
	t.Parallel()
	c := coretest.New(coretest.Start)
	at := core.TimeOf(coretest.Start)
	fired := make(chan string, 4)
	c.AfterFunc(at.Add(time.Second), func() { fired <- "second" })
	stop := c.AfterFunc(at.Add(time.Second), func() { fired <- "stopped" })
	c.AfterFunc(at.Add(time.Hour), func() { fired <- "hour" })
	assert.True(t, stop())
	assert.False(t, stop())
	assert.Equal(t, at.Add(time.Second), c.Next())

	c.Advance(time.Second - time.Microsecond)
	assert.Equal(t, 2, c.Timers())
	c.Advance(time.Microsecond)
	assert.Equal(t, "second", <-fired)
	assert.Equal(t, 1, c.Timers())
	c.AfterFunc(c.Now(), func() { fired <- "at once" })
	assert.Equal(t, "at once", <-fired)
	c.Set(coretest.Start)
	assert.Equal(t, at.Add(time.Second), c.Now(), "a clock never goes back")
	c.Set(coretest.Start.Add(2 * time.Hour))
	assert.Equal(t, "hour", <-fired)
	assert.Empty(t, fired)
}

func TestClockCallbacksMayUseTheClock(t *testing.T) {
	t.Parallel()
	c := coretest.New(coretest.Start)
	var wg sync.WaitGroup
	for range 50 {
		wg.Add(2)
		go func() {
			defer wg.Done()
			c.AfterFunc(c.Now().Add(time.Millisecond), func() {
				defer wg.Done()
				c.AfterFunc(c.Now().Add(time.Hour), func() {})
			})
			c.Advance(time.Millisecond)
		}()
	}
	wg.Wait()
	assert.Equal(t, 50, c.Timers())
}

func TestSegmentFactoryRoundTrips(t *testing.T) {
	t.Parallel()
	now := core.TimeOf(coretest.Start)
	m := coretest.Message(7, now, coretest.Transaction("a\x00b"), coretest.Source("s"), coretest.Expires(now+5),
		coretest.Payload(core.ContentBytes, []byte{0, 1, 2}))
	s := coretest.Segment(3, coretest.Message(6, now), m)
	hs, err := core.DecodeHeaders(s.Header, s.Count)
	require.NoError(t, err)
	h := core.SegmentHeader{Partition: 3, First: 10, AppendedAt: now, Messages: hs}
	ms, err := core.DecodeMessages(&h, 0, 1, s.Body)
	require.NoError(t, err)
	assert.Equal(t, int64(11), ms[1].Offset)
	assert.Equal(t, "a\x00b", ms[1].TransactionID)
	assert.Equal(t, "s", ms[1].SourceID)
	assert.Equal(t, []byte{0, 1, 2}, ms[1].Payload)
	assert.Equal(t, now+5, s.Expires)
	assert.Equal(t, core.Totals{Messages: 2, Bytes: 10, Created: 2 * now.Milli()}, s.Totals)
}
