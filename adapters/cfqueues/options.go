package cfqueues

import (
	"log/slog"
	"time"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
)

// Options configures the adapter. The zero value is the vendor's documented
// behaviour.
type Options struct {
	// Logger takes one line per internal error. Nil means [slog.DiscardHandler].
	Logger *slog.Logger
	// Limits bounds requests and settings; zero fields mean the vendor's values.
	Limits Limits
	// Rates bounds how fast requests may come; zero fields are no bound.
	Rates Rates
	// StrictJSONPush refuses a json body that is neither an object nor an array, as
	// the live service does. Off, every JSON value is taken.
	StrictJSONPush bool
	// PlainJSONBodies hands json payloads to consumers as their text instead of the
	// documented base64. Some clients written against the live service expect it.
	PlainJSONBodies bool
	// ImplicitHTTPPull lets queues without an http_pull consumer be pulled, with the
	// vendor's default batch size and visibility timeout, so that a dead letter queue
	// can be read without ceremony. Deliveries are then not limited.
	ImplicitHTTPPull bool
	// InertWorkerConsumers stores consumers of type worker, so that tools which make
	// them find them again; they never run. Off, they are refused.
	InertWorkerConsumers bool
	// InertSubscriptions stores event subscriptions in the same way; no event ever
	// comes. Off, their creation is refused.
	InertSubscriptions bool
	// Lenient answers requests that the vendor's own test suites send to a mock with
	// success where that does no harm: a push without a body stores null, an empty
	// batch stores nothing, a purge needs no confirmation.
	Lenient bool
	// Tokens are what requests have to show. Nil lets everybody do everything.
	Tokens *Tokens
	// Account is the id of the server's account, 1 to 32 bytes. Where tokens are asked
	// for, another account's paths are refused. "" makes an id for the routes that list
	// accounts, and takes any.
	Account string
	// Now is the process clock, for the durations in logs and metrics only; the
	// engine's clock decides everything else. Nil makes every duration 0.
	Now func() time.Time
	// Observer is told of every request that ended. Nil means nobody.
	Observer httpapi.Observer
}

// Limits are the bounds of this protocol. Each has the vendor's published value as
// its default; a zero or negative field means that default.
type Limits struct {
	// MaxRequestBytes bounds the body of any request, before it is decoded. Default
	// 8 MiB: a full batch of text in which every character is escaped still fits.
	MaxRequestBytes int64
	// MaxMessageBytes bounds the decoded content of one message. Default 128,000.
	MaxMessageBytes int64
	// MaxBatchBytes bounds the decoded content of one batch. Default 256,000.
	MaxBatchBytes int64
	// MaxBatchMessages bounds the messages of one batch. Default 100.
	MaxBatchMessages int
	// MaxPullMessages bounds the messages of one pull. Default 100.
	MaxPullMessages int
	// MaxPullBytes bounds the payload bytes of one pull; one message always fits.
	// Default 16,000,000.
	MaxPullBytes int64
	// MaxQueues bounds the queues of the server, those of other protocols included, when
	// one is made here. Default 10,000.
	MaxQueues int
	// MaxBacklogBytes bounds the payload bytes of one queue's backlog, as last counted.
	// Default 25,000,000,000.
	MaxBacklogBytes int64
	// MaxWait bounds how long a pull may wait for messages. Default 20 seconds.
	MaxWait time.Duration
	// MaxRetries bounds max_retries of a consumer. Default 100.
	MaxRetries int
	// MaxVisibilityTimeout bounds a lease. Default 12 hours.
	MaxVisibilityTimeout time.Duration
	// MaxDelay bounds the delay of a push, a retry, a queue or a consumer. Default 24
	// hours.
	MaxDelay time.Duration
	// MinRetention and MaxRetention bound message_retention_period. Default 60
	// seconds and 14 days.
	MinRetention, MaxRetention time.Duration
}

// Settings that hold where neither the request nor the stored object names any.
const (
	defaultBatchSize  = 5
	defaultMaxRetries = 3
	defaultVisibility = 30 * time.Second
	workerBatchSize   = 10
	workerMaxWait     = 5 * time.Second
	// defaultPerPage is the page length of a list that was asked for by page. The
	// vendor publishes none; its schema uses this value as the example.
	defaultPerPage = 20
)

// withDefaults returns o with every unset field filled in.
func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &o.Limits
	orDefault(&l.MaxRequestBytes, 8<<20)
	orDefault(&l.MaxMessageBytes, 128_000)
	orDefault(&l.MaxBatchBytes, 256_000)
	orDefault(&l.MaxBatchMessages, 100)
	orDefault(&l.MaxPullMessages, 100)
	orDefault(&l.MaxPullBytes, 16_000_000)
	orDefault(&l.MaxQueues, 10_000)
	orDefault(&l.MaxBacklogBytes, 25_000_000_000)
	orDefault(&l.MaxWait, 20*time.Second)
	orDefault(&l.MaxRetries, 100)
	orDefault(&l.MaxVisibilityTimeout, 12*time.Hour)
	orDefault(&l.MaxDelay, 24*time.Hour)
	orDefault(&l.MinRetention, time.Minute)
	orDefault(&l.MaxRetention, 14*24*time.Hour)
	return o
}

// orDefault sets an unset limit.
func orDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
