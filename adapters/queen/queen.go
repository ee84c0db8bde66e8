package queen

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
	"github.com/leasehold/leasehold/core"
)

// DefaultMaxBodyBytes is the protocol's limit of a request body, 64 MiB
// (protocol §1, rule 10).
const DefaultMaxBodyBytes = 64 << 20

// DefaultTimeout is how long a pop with wait=true parks when it names no
// timeout (protocol §3.2).
const DefaultTimeout = 30 * time.Second

// DefaultBatch is the message budget of a pop that names none (protocol §3.2).
const DefaultBatch = 200

// Options are the settings of the adapter; a zero field is its default.
type Options struct {
	// Logger receives the access log and the server's own failures. Default: discarded.
	Logger *slog.Logger
	// Now is the process's clock, for the durations in the access log only. Default: every duration is 0.
	Now func() time.Time
	// Observer is told of every ended request. Default: nobody.
	Observer httpapi.Observer
	// Version is what GET /health shows as the server's version. Default: "dev".
	Version string
	// MaxBodyBytes bounds a request body, in bytes. Default: DefaultMaxBodyBytes.
	MaxBodyBytes int64
	// Timeout is the long-poll deadline of a pop that names none. Default: DefaultTimeout.
	Timeout time.Duration
	// Batch is the message budget of a pop that names none. Default: DefaultBatch.
	Batch int
	// SubscribeNew makes a new consumer group that names no subscription mode start at the end of
	// the log; the original's DEFAULT_SUBSCRIPTION_MODE=new. Default: at its start.
	SubscribeNew bool
	// DeliveryAttempt adds deliveryAttempt to every popped message: 1, and one more for each failure that made it come back. A lease that ran
	// out is none. Default: no such key, as the pop routes' page says.
	DeliveryAttempt bool
	// ReplaceOptions makes a configure call that names no mode forget every option that it does not name, as
	// releases before 1.6 did. Default: it keeps them (protocol §3.6).
	ReplaceOptions bool
	// Auth says which tokens are let in. Default: everybody, with or without one. Settings that Auth.Check refuses let nobody in.
	Auth Auth
	// CanEncrypt tells that the store encrypts the payloads of queues with encryptionEnabled, or that the operator wants them in the clear
	// all the same. Default: a configure call that asks for encryption is refused.
	CanEncrypt bool
	// Meter has the figures of the dashboard's and of the metrics routes; it must be the engine's observer. Default: those figures are 0.
	Meter *Meter
	// Maintenance has the maintenance switches and the spool. Default: there are none.
	Maintenance *Maintenance
}

// server answers the protocol over one engine.
type server struct {
	engine *core.Engine
	logger *slog.Logger
	o      Options
	// verifier checks tokens; nil where Options.Auth has no key, or none that can be read.
	verifier *verifier
}

// New returns a handler that speaks Queen's HTTP API over the engine. It is
// safe for concurrent use; a pop that waits ends when its request's context
// does, and then nothing is claimed for it.
func New(engine *core.Engine, o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.MaxBodyBytes <= 0 {
		o.MaxBodyBytes = DefaultMaxBodyBytes
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Batch <= 0 {
		o.Batch = DefaultBatch
	}
	s := &server{engine: engine, logger: o.Logger, o: o}
	s.secure()
	return httpapi.Wrap(s.router(), httpapi.Options{
		Protocol: core.ProtocolQueen.String(), Logger: o.Logger, Now: o.Now, Observer: o.Observer,
		Panic: func(w http.ResponseWriter, _ *http.Request) { writeError(w, replies[core.CodeInternal]) },
	})
}

// secure prepares the checking of tokens.
func (s *server) secure() {
	if !s.o.Auth.Enabled() {
		return
	}
	now := s.o.Now
	if now == nil {
		now = func() time.Time { return s.engine.Now().Std() }
	}
	v, err := newVerifier(s.o.Auth, verifierOptions{logger: s.logger, now: now})
	if err != nil {
		s.logger.Error("authentication settings cannot be used, so nobody is let in", "error", err.Error())
		return
	}
	if n := len(s.o.Auth.Secret); n > 0 && n < 32 {
		s.logger.Warn("the secret of tokens is short, 32 random bytes are advised", "bytes", n)
	}
	s.verifier = v
}

// body reads a request's body and decodes it. The memory goes back for other
// requests when release is called, which is right once nothing of the body is
// in use any more; a decoder that copies needs it at once.
func (s *server) body(r *http.Request, decode func([]byte) error) (release func(), err error) {
	body, err := httpapi.ReadBody(r, s.o.MaxBodyBytes)
	if err != nil {
		return nil, err
	}
	if err := decode(body.Bytes); err != nil {
		body.Release()
		return nil, badBody(err)
	}
	return body.Release, nil
}

// copied reads a body with a decoder whose result shares no memory with it.
func (s *server) copied(r *http.Request, decode func([]byte) error) error {
	release, err := s.body(r, decode)
	if err != nil {
		return err
	}
	release()
	return nil
}

// settled reports whether an engine call can no longer hold what it was given.
func settled(ctx context.Context, err error) bool {
	return err == nil && ctx.Err() == nil
}
