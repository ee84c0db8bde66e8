package querator

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
	"github.com/leasehold/leasehold/core"
)

// server is one listener.
type server struct {
	engine *core.Engine
	o      Options
	ids    *idCodec
	rooms  *waitingRooms
	guard  guard
}

// New returns the handler of one Querator listener over engine.
func New(engine *core.Engine, o Options) http.Handler {
	o = o.withDefaults()
	s := &server{engine: engine, o: o, ids: newIDCodec(engine.Secret()), rooms: newWaitingRooms(o.WaitingRoom)}
	return httpapi.Wrap(s.router(), httpapi.Options{
		Protocol: "querator", Logger: o.Logger, Now: o.Now, Observer: o.Observer,
		Panic: s.panicked,
	})
}

// panicked answers a request whose handler panicked.
func (s *server) panicked(w http.ResponseWriter, r *http.Request) { s.answer(w, r, nil, errInternal) }

// call is one request that has passed the transport's checks.
type call struct {
	*server
	ctx context.Context
	// dialect words the answer; on an Auto listener the request or the queue may change it.
	dialect *dialect
	in      encoding
	body    []byte
	// named tells that the queue's name is called "name" too.
	named bool
	// scope is the namespace that the request's key is bound to, "" for none.
	scope string
}

// decode reads the body into m. JSON is strict: unknown and doubled members, wrong types and
// anything after the message are errors.
func (c *call) decode(m proto.Message) error {
	var err error
	if c.in == encodeProtobuf {
		err = proto.Unmarshal(c.body, m)
	} else {
		err = protojson.Unmarshal(c.body, m)
	}
	if err != nil {
		return undecodable(err)
	}
	return nil
}

// auto reports whether the listener speaks whatever the client does.
func (c *call) auto() bool { return c.o.Generation == Auto }

// dialectFor returns the dialect in which to speak of a queue on a route that both families share:
// the listener's where it is fixed, else the one of the names that the queue was made with.
func (c *call) dialectFor(q *core.Queue) *dialect {
	if c.auto() && c.dialect != dialectR1 && familyOf(q) == familyReserve {
		return dialectR2
	}
	return c.dialect
}

// adopt words the rest of the call in the dialect of a queue.
func (c *call) adopt(q *core.Queue) { c.dialect = c.dialectFor(q) }

// serve answers one RPC.
func (s *server) serve(w http.ResponseWriter, r *http.Request, rt *route) {
	scope, err := s.refuse(r)
	if err != nil {
		s.answer(w, r, nil, err)
		return
	}
	limit := rt.limit
	if limit == 0 {
		limit = s.o.MaxProduceBytes
	}
	body, err := s.read(r, limit)
	if err != nil {
		s.answer(w, r, nil, err)
		return
	}
	// Decoding copies all that outlives it.
	defer body.Release()
	in, ok := encodingOf(mediaType(r.Header.Get("Content-Type")))
	if !ok {
		s.answer(w, r, nil, badContentType(r.Header.Get("Content-Type")))
		return
	}
	c := &call{server: s, ctx: r.Context(), dialect: rt.auto, in: in, body: body.Bytes, named: rt.named, scope: scope}
	if c.named && in == encodeJSON {
		c.body = renameName(c.body)
	}
	if !c.auto() {
		c.dialect = dialectOf(s.o.Generation)
	}
	if rt.looksFirst() {
		_ = s.engine.Refresh(r.Context()) // where the store is away, the handler meets that too
	}
	rep, err := rt.handle(c)
	s.answer(w, r, rep, err)
}

// read reads a body. The smallest limit leaves room for the name of the queue: it is as long as a
// name may be, and in the originals a queue with such a name could be made and not leased from.
func (s *server) read(r *http.Request, limit int64) (*httpapi.Body, error) {
	most := limit
	if limit == limitClaim {
		most += maxNameBytes
	}
	body, err := httpapi.ReadBody(r, most)
	switch {
	case errors.Is(err, httpapi.ErrTooLarge):
		return nil, bodyTooLarge(limit)
	case err != nil:
		return nil, errUnreadable
	}
	if over := int64(len(body.Bytes)) - limit; over > 0 && over > int64(len(nameIn(body.Bytes))) {
		body.Release()
		return nil, bodyTooLarge(limit)
	}
	return body, nil
}

// nameIn returns the queue's name in a body of either encoding, "" where there is none.
func nameIn(body []byte) (name string) {
	var m struct {
		Name  string `json:"queue_name"`
		Field string `json:"queueName"`
	}
	if json.Unmarshal(body, &m) == nil {
		return m.Name + m.Field
	}
	eachField(body, func(n protowire.Number, v []byte) {
		if n == 1 {
			name = string(v)
		}
	})
	return name
}

// refuse makes the checks that come before the route's own: the Accept header, which the
// originals look at only when the work is done, and the authorization.
func (s *server) refuse(r *http.Request) (scope string, err error) {
	if _, err := replyEncoding(r.Header.Get("Accept"), ""); err != nil {
		return "", err
	}
	return s.admit(r)
}

// unknown answers a path or a method that no route has.
func (s *server) unknown(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		s.answer(w, r, nil, badMethod(r.Method))
		return
	}
	if _, err := s.refuse(r); err != nil {
		s.answer(w, r, nil, err)
		return
	}
	s.answer(w, r, nil, noMethod(r.URL.Path))
}

// answer writes a reply, or the fault that err is.
func (s *server) answer(w http.ResponseWriter, r *http.Request, rep reply, err error) {
	enc, acceptErr := replyEncoding(r.Header.Get("Accept"), r.Header.Get("Content-Type"))
	if acceptErr != nil {
		err = acceptErr
	}
	if err == nil {
		send(w, codeOK, enc, rep)
		return
	}
	var f *fault
	if !errors.As(err, &f) {
		s.o.Logger.LogAttrs(r.Context(), slog.LevelError, "request failed",
			slog.String("code", core.CodeOf(err).String()), slog.Any("cause", err), slog.String("request_id", httpapi.RequestID(r.Context())))
		f = errInternal
	}
	send(w, f.code, enc, f.reply())
}

// failed words an error of the engine. One that has no words in the table is passed on, and
// becomes an internal error.
func (c *call) failed(o operation, err error) error {
	if word, ok := coreFaults[core.CodeOf(err)]; ok {
		o.dialect = c.dialect
		return word(&o, err)
	}
	return err
}

// hasHealth reports whether the generation has GET /health, which came with v0.0.11.
func (s *server) hasHealth() bool { return s.o.Generation != R1 && s.o.Generation != R2 }

// health answers GET /health; it is never authenticated.
func (s *server) health(w http.ResponseWriter, r *http.Request) {
	s.writeHealth(w, s.engine.Now().Std(), s.engine.Ready(r.Context()))
}

// writeHealth answers with what is wrong with the store, nil being nothing, at a time.
func (s *server) writeHealth(w http.ResponseWriter, now time.Time, err error) {
	status, state := http.StatusOK, "pass"
	if err != nil {
		status, state = http.StatusServiceUnavailable, "fail"
	}
	check := openObject(nil)
	check.str("componentType", "datastore")
	check.str("status", state)
	check.time("time", now.Truncate(time.Second))
	if err != nil {
		check.str("output", "storage check failed")
	}
	o := openObject(nil)
	o.str("status", state)
	o.str("version", s.o.Version)
	o.key("checks")
	o.dst = append(append(append(o.dst, `{"queues:storage":[`...), check.close()...), "]}"...)
	w.Header().Set("Content-Type", "application/health+json")
	w.WriteHeader(status)
	_, _ = w.Write(append(o.close(), '\n'))
}
