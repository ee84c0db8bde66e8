package cfqueues

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

// Rates are the vendor's limits of speed. All are off unless set: a server of one's own
// has no reason to slow its users down, but a test against the vendor's limits has.
type Rates struct {
	// MessagesPerSecond bounds what is pushed to, and what is pulled from, one queue,
	// each on its own. The vendor's value is 5,000. 0 is no limit.
	MessagesPerSecond int
	// RequestsPerFiveMinutes bounds the requests of one token, or of one address where
	// no token is asked for, to routes other than the message routes. The vendor's
	// value is 1,200. 0 is no limit.
	RequestsPerFiveMinutes int
}

// ratePeriod is the period of RequestsPerFiveMinutes.
const ratePeriod = 5 * time.Minute

// limiter bounds the speed of many keys with a bucket for each. A request takes what it
// needs as long as anything is left, so a batch larger than the bucket gets through and
// the debt is waited for afterwards.
type limiter struct {
	size  float64 // of a bucket
	every time.Duration
	now   func() core.Time

	mu      sync.Mutex
	buckets map[string]*bucket
}

// bucket is what one key may still take, as of a time.
type bucket struct {
	left float64
	at   core.Time
}

// maxBuckets bounds the keys that are remembered; above it full buckets are dropped,
// which are as good as new ones.
const maxBuckets = 10_000

// newLimiter allows size units in every period; nil, which allows everything, for 0.
func newLimiter(size int, every time.Duration, now func() core.Time) *limiter {
	if size <= 0 {
		return nil
	}
	return &limiter{size: float64(size), every: every, now: now, buckets: map[string]*bucket{}}
}

// take takes n units, which may be 0 to ask only, and returns how long to wait where
// nothing is left; then nothing is taken.
func (l *limiter) take(key string, n int) time.Duration {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	b := l.buckets[key]
	if b == nil {
		l.tidy(now)
		b = &bucket{left: l.size, at: now}
		l.buckets[key] = b
	}
	l.fill(b, now)
	if b.left < 1 {
		return time.Duration((1 - b.left) / l.size * float64(l.every))
	}
	b.left -= float64(n)
	return 0
}

// spend takes n units that are spent already, into debt where need be.
func (l *limiter) spend(key string, n int) {
	if l == nil || n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.buckets[key]; b != nil {
		b.left -= float64(n)
	}
}

// fill adds what time has brought.
func (l *limiter) fill(b *bucket, now core.Time) {
	b.left = min(l.size, b.left+l.size*float64(max(now.Sub(b.at), 0))/float64(l.every))
	b.at = max(b.at, now)
}

// tidy makes room for a bucket.
func (l *limiter) tidy(now core.Time) {
	if len(l.buckets) < maxBuckets {
		return
	}
	for key, b := range l.buckets {
		if l.fill(b, now); b.left >= l.size {
			delete(l.buckets, key)
		}
	}
}

// speed are the limiters of a server.
type speed struct{ pushes, pulls, requests *limiter }

func newSpeed(r *Rates, now func() core.Time) speed {
	return speed{
		pushes:   newLimiter(r.MessagesPerSecond, time.Second, now),
		pulls:    newLimiter(r.MessagesPerSecond, time.Second, now),
		requests: newLimiter(r.RequestsPerFiveMinutes, ratePeriod, now),
	}
}

// admitRequest refuses a request to the control plane that comes too fast.
func (s *server) admitRequest(c *gin.Context, needs need) *apiError {
	if s.speed.requests == nil || needs.onMessages() {
		return nil
	}
	key, _, err := net.SplitHostPort(c.Request.RemoteAddr)
	if err != nil {
		key = c.Request.RemoteAddr
	}
	if who := callerOf(c); who != nil {
		key = who.token.ID
	}
	if wait := s.speed.requests.take(key, 1); wait > 0 {
		return tooFast(codeRateLimited, "Please wait and consider throttling your request speed", wait)
	}
	return nil
}

// admitPush refuses a push to a queue that is pushed to too fast, or that is full.
func (s *server) admitPush(ctx context.Context, q *core.Queue, messages []pushMessage) *apiError {
	if wait := s.speed.pushes.take(q.Name, len(messages)); wait > 0 {
		return tooFast(codeOverloaded, "QueueOverloaded", wait)
	}
	if _, full := s.full.Load(q.Name); !full {
		return nil
	}
	// Counted as full a while ago. Only this queue's pushes pay for another count.
	m, err := s.counter.metrics(ctx, countedOf(q))
	if s.noteBacklog(q.Name, &m); err == nil && m.BacklogBytes >= s.o.Limits.MaxBacklogBytes {
		return tooFast(codeStorageLimit, "QueueStorageLimitExceeded", waitFull)
	}
	return nil
}

// noteBacklog remembers whether a queue is full, from a count that was made anyway.
func (s *server) noteBacklog(queue string, m *metrics) {
	if m.BacklogBytes >= s.o.Limits.MaxBacklogBytes {
		s.full.Store(queue, struct{}{})
	} else {
		s.full.Delete(queue)
	}
}

// admitPull refuses a pull from a queue that is pulled from too fast.
func (s *server) admitPull(q *core.Queue) *apiError {
	if wait := s.speed.pulls.take(q.Name, 0); wait > 0 {
		return tooFast(codeOverloaded, "QueueOverloaded", wait)
	}
	return nil
}

// notePulled counts what a pull was given.
func (s *server) notePulled(q *core.Queue, claimed *core.Claimed) {
	if s.speed.pulls == nil {
		return
	}
	for i := range claimed.Partitions {
		s.speed.pulls.spend(q.Name, len(claimed.Partitions[i].Messages))
	}
}

// codeRateLimited is the code of the vendor's general API for too many requests.
const codeRateLimited = 971

// tooFast is a request that may be sent again after a while.
func tooFast(code int, message string, wait time.Duration) *apiError {
	return &apiError{status: http.StatusTooManyRequests, code: code, message: message, retryAfter: max(wait, time.Millisecond)}
}
