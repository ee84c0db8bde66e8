package cfqueues

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
	"github.com/leasehold/leasehold/core"
)

// server is what the handlers share.
type server struct {
	engine  *core.Engine
	o       Options
	ctl     *control
	tokens  *tokens
	counter *counter
	// accountID is the id under which the account is listed.
	accountID string
	speed     speed
	full      sync.Map // names of queues whose backlog was last seen at the limit
}

// New returns the handler that serves this protocol over an engine, under the vendor's
// prefix /client/v4 and without it. It never answers with a redirect, and every answer
// is this protocol's JSON envelope.
func New(engine *core.Engine, o Options) http.Handler {
	o = o.withDefaults()
	s := &server{engine: engine, o: o, ctl: newControl(&o), tokens: newTokens(engine.Secret())}
	s.speed = newSpeed(&o.Rates, engine.Now)
	s.accountID = accountID(&o, engine.Secret())
	s.counter = newCounter(s.countQueue, o.Now)
	return httpapi.Wrap(normalize(s.router()), httpapi.Options{
		Protocol: "cfqueues", Logger: o.Logger, Now: o.Now, Observer: o.Observer,
		Panic: func(w http.ResponseWriter, _ *http.Request) { writeError(w, errInternal(nil)) },
	})
}

// router registers the table of routes.
func (s *server) router() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	g := gin.New()
	// Names are decoded by param: the router's own decoding turns '+' into a space.
	g.UseRawPath, g.UnescapePathValues = true, false
	g.RedirectTrailingSlash, g.RedirectFixedPath, g.HandleMethodNotAllowed = false, false, false
	for _, r := range routes {
		g.Handle(r.method, r.pattern, s.wrap(r))
	}
	g.NoRoute(func(c *gin.Context) { writeError(c.Writer, errNoRoute(clip(c.Request.URL.Path))) })
	return g
}

// wrap turns a handler of this package into the router's: its error, if it returns
// one, is written as the answer.
func (s *server) wrap(r route) gin.HandlerFunc {
	return func(c *gin.Context) {
		httpapi.SetRoute(c.Request.Context(), r.pattern)
		err := s.admit(c, r.needs)
		if err == nil {
			err = s.admitRequest(c, r.needs)
		}
		if err == nil {
			if r.looksFirst() {
				_ = s.engine.Refresh(c.Request.Context()) // where the store is away, the handler meets that too
			}
			err = r.handle(s, c)
		}
		if err == nil {
			return
		}
		if err.status >= http.StatusInternalServerError && err.cause != nil {
			s.o.Logger.LogAttrs(c.Request.Context(), slog.LevelError, "request failed",
				slog.String("protocol", "cfqueues"), slog.String("route", r.pattern),
				slog.String("request_id", httpapi.RequestID(c.Request.Context())), slog.Any("error", err.cause))
		}
		writeError(c.Writer, err)
	}
}

// body reads the request's body within the limit. tooLarge is the route's code for a
// body above it. The caller hands the body to release when it is done.
func (s *server) body(c *gin.Context, tooLarge int) (*httpapi.Body, *apiError) {
	b, err := httpapi.ReadBody(c.Request, s.o.Limits.MaxRequestBytes)
	switch {
	case errors.Is(err, httpapi.ErrTooLarge):
		return nil, errBodyTooLarge(tooLarge, s.o.Limits.MaxRequestBytes)
	case err != nil:
		return nil, refusal(http.StatusBadRequest, codeClientGone, "ClientDisconnected")
	}
	return b, nil
}

// bodyAndQueue reads the body of a route about messages and the queue that it names. The body has to be released.
func (s *server) bodyAndQueue(c *gin.Context) (*httpapi.Body, core.Queue, *apiError) {
	b, bad := s.body(c, codeBodyInvalid)
	if bad != nil {
		return nil, core.Queue{}, bad
	}
	q, err := s.queue(c)
	if err != nil {
		release(c, b)
		return nil, core.Queue{}, fromMessages(err)
	}
	return b, q, nil
}

// release gives a body's memory back, unless the client left: then a call of the
// engine may have returned while it was still using the bytes.
func release(c *gin.Context, b *httpapi.Body) {
	if c.Request.Context().Err() == nil {
		b.Release()
	}
}

// param returns a decoded segment of the path.
func param(c *gin.Context, name string) string {
	raw := c.Param(name)
	if s, err := url.PathUnescape(raw); err == nil {
		return s
	}
	return raw
}

// queue finds the queue that the path names, by id or, as an extension, by name. A
// queue that the caller's token is not for is refused, whether it exists or not.
func (s *server) queue(c *gin.Context) (core.Queue, error) {
	ctx, who := c.Request.Context(), callerOf(c)
	name := param(c, "queue")
	if id, ok := parseID(name); ok {
		q, err := s.engine.QueueByID(ctx, id)
		if err == nil {
			return q, refused(who.check(q.Name))
		}
		if core.CodeOf(err) != core.CodeNoQueue {
			return q, err
		}
		// 32 hex digits are a legal name too.
	}
	if bad := who.check(name); bad != nil {
		return core.Queue{}, bad
	}
	return s.engine.Queue(ctx, name)
}

// renewed looks the queue of the path up again after a look at what other gateways did, and reports whether it is another queue now: one of them
// may have given the name to a new one.
func (s *server) renewed(c *gin.Context, q *core.Queue) bool {
	if s.engine.Refresh(c.Request.Context()) != nil {
		return false
	}
	fresh, err := s.queue(c)
	if err != nil {
		return false
	}
	old := q.ID
	*q = fresh
	return fresh.ID != old
}

// decisions bounds how often a request is decided by a queue that changes each time.
const decisions = 8

// decided has decide handle a request by what the queue of the path is, and again when the queue turns out to have been changed, by this gateway or
// another: the engine's error is then a conflict, and nothing of the request has happened.
func (s *server) decided(c *gin.Context, decide func(q *core.Queue) (*apiError, error)) *apiError {
	for n := 1; ; n++ {
		q, err := s.queue(c)
		if err != nil {
			return fromMessages(err)
		}
		bad, err := decide(&q)
		switch {
		case bad != nil:
			return bad
		case err == nil:
			return nil
		case core.CodeOf(err) != core.CodeConflict || n == decisions:
			return fromMessages(err)
		}
	}
}

// refused is a refusal as an error: nil stays nil.
func refused(e *apiError) error {
	if e == nil {
		return nil
	}
	return e
}

// parseID reads an id as this protocol writes it: 32 lowercase hex digits.
func parseID(s string) (uuid.UUID, bool) {
	if len(s) != 32 {
		return uuid.Nil, false
	}
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return uuid.Nil, false
		}
	}
	id, err := uuid.Parse(s)
	return id, err == nil
}
