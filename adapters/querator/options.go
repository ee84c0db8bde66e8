package querator

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
	"github.com/leasehold/leasehold/core"
)

// Generation says which generation of the protocol a listener speaks. The generations differ in
// JSON names, in the wording of messages, in some field numbers and in which routes exist.
type Generation string

// The generations.
const (
	// Auto answers queue.reserve, queue.defer and queues that were made with reserve names as R2,
	// everything else as L2.
	Auto Generation = "auto"
	// R1 is the reserve family of 2024-09, with dead_timeout.
	R1 Generation = "R1"
	// R2 is the reserve family of 2025-04, with expire_timeout.
	R2 Generation = "R2"
	// L1 is the lease family of v0.0.11.
	L1 Generation = "L1"
	// L2 is the lease family of 2026, with namespaces.
	L2 Generation = "L2"
)

// ParseGeneration reads a generation's name in any case. "reserve" is R2, "lease" is L2 and ""
// is auto; anything else is an error with code CodeInvalid.
func ParseGeneration(s string) (Generation, error) {
	switch strings.ToLower(s) {
	case "", "auto":
		return Auto, nil
	case "r1":
		return R1, nil
	case "r2", "reserve":
		return R2, nil
	case "l1":
		return L1, nil
	case "l2", "lease":
		return L2, nil
	}
	return "", core.Errorf(core.CodeInvalid, "parse generation", "generation must be auto, R1, R2, L1, L2, reserve or lease")
}

// The limits that hold when an option is left at zero.
const (
	// DefaultMaxProduceBytes is the largest body of queue.produce since 2025-11-08.
	DefaultMaxProduceBytes = 5_000_000
	// DefaultMaxBatch is the most items, ids or batch size of one request.
	DefaultMaxBatch = 1000
	// DefaultWaitingRoom is how many requests of a queue may wait to be taken.
	DefaultWaitingRoom = 100
	// commitRequests is how many requests one commit takes; the waiting room is what comes after them.
	commitRequests = 1000
)

// Options configure a listener. Zero fields take the default named with them.
type Options struct {
	// Generation fixes what the listener speaks. Default: Auto. A value that is none of the
	// constants counts as Auto.
	Generation Generation
	// MaxProduceBytes bounds the body of queue.produce, in bytes. Default: DefaultMaxProduceBytes.
	MaxProduceBytes int64
	// MaxProduceBatch bounds the items of one queue.produce. Default: DefaultMaxBatch.
	MaxProduceBatch int
	// MaxLeaseBatch bounds the batch size of one queue.lease or queue.reserve. Default: DefaultMaxBatch.
	MaxLeaseBatch int
	// MaxCompleteBatch bounds the ids or items of one queue.complete, queue.retry or queue.defer.
	// Default: DefaultMaxBatch.
	MaxCompleteBatch int
	// WaitingRoom bounds how many produce, complete and retry requests of one queue may wait beside
	// the 1,000 that a commit takes; the next one is told to retry. Leases that wait for items are
	// not counted, as in the originals. Default: DefaultWaitingRoom; negative is no bound.
	WaitingRoom int
	// RequireKey refuses every request without a valid API key, in all generations; /health is open.
	// Default: any bearer token is taken, and none.
	RequireKey bool
	// RootKey is a key that is always valid and stored nowhere. Where it is empty and RequireKey is
	// set, apikeys.create is open until the first key exists. Default: none.
	RootKey string
	// Version is shown by /health. Default: "dev-build".
	Version string
	// Metrics answers GET /metrics. Default: the path does not exist.
	Metrics http.Handler
	// Logger receives the access log and internal errors. Default: discarded.
	Logger *slog.Logger
	// Now measures durations for the log and metrics. Default: none are measured.
	Now func() time.Time
	// Observer is told of every request. Default: nobody.
	Observer httpapi.Observer
}

// withDefaults fills in what was left at zero.
func (o Options) withDefaults() Options {
	switch o.Generation {
	case R1, R2, L1, L2:
	default:
		o.Generation = Auto
	}
	if o.MaxProduceBytes <= 0 {
		o.MaxProduceBytes = DefaultMaxProduceBytes
	}
	for _, n := range []*int{&o.MaxProduceBatch, &o.MaxLeaseBatch, &o.MaxCompleteBatch} {
		if *n <= 0 {
			*n = DefaultMaxBatch
		}
	}
	if o.WaitingRoom == 0 {
		o.WaitingRoom = DefaultWaitingRoom
	}
	if o.Version == "" {
		o.Version = "dev-build"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
