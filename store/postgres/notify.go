package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/core"
)

const (
	// announceEvery is the least time between two notifications of a gateway.
	announceEvery = 5 * time.Millisecond
	// hearWithin is how long the first notification of our own may take; where none comes, a pooler stands between.
	hearWithin = 5 * time.Second
	// awaitEvery is how often a gateway says that it waits, and awaitedFor how long after that it is told of commits.
	awaitEvery, awaitedFor = time.Second, 5 * time.Second
	// heardFor is how long another gateway is taken to be there after a notification of it came. Each sends one every lookEvery.
	heardFor = 3 * lookEvery
	// relistenAfter to relistenAtMost is how long a broken connection waits before it is made again.
	relistenAfter, relistenAtMost = 100 * time.Millisecond, 5 * time.Second
)

// channel is where the gateways of a schema hear from each other: names of channels are shorter than those of schemas may be.
func channel(schema string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(schema)) // never fails
	return fmt.Sprintf("leasehold_%x", h.Sum64())
}

// The text of a notification is the gateway that sends it and what it says beside: that it waits for what others commit, or that it has begun to
// listen, upon which those that wait say so.
const saysWaiting, saysHello = "!", "?"

// committed has other gateways notified, soon, or when one says that it waits.
func (s *Store) committed() {
	s.owing.Store(true)
	if s.awaited() {
		s.speak()
	}
}

// awaited reports whether another gateway may wait for what this one commits; who does not listen cannot tell.
func (s *Store) awaited() bool {
	return !s.listening.Load() || s.mono.Now() < core.Time(s.awaitedUntil.Load())
}

// speak has a notification sent, soon.
func (s *Store) speak() {
	select {
	case s.announcing <- struct{}{}:
	default: // it is about to happen
	}
}

// Await implements core.Shared.
func (s *Store) Await() {
	now := s.mono.Now()
	s.waitingUntil.Store(int64(now.Add(awaitedFor)))
	if said := core.Time(s.saidWaiting.Load()); said != 0 && now < said.Add(awaitEvery) || s.Alone() {
		return
	}
	s.saidWaiting.Store(int64(now))
	s.speak()
}

// says returns the text of a notification.
func (s *Store) says() string {
	if s.mono.Now() < core.Time(s.waitingUntil.Load()) {
		return s.gateway.String() + saysWaiting
	}
	return s.gateway.String()
}

// announce notifies other gateways after commits, until ctx ends. The notification is a transaction of its own on a connection
// of its own: inside of commits it would make them take turns, since it holds a lock over the whole database.
func (s *Store) announce(ctx context.Context) {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
		}
	}()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-s.announcing:
		}
		pause.Reset(announceEvery)
		if s.Alone() {
			continue
		}
		s.owing.Store(false)
		try, cancel := context.WithTimeout(ctx, hearWithin)
		var err error
		if conn == nil {
			conn, err = s.ownConnection(try)
		}
		if err == nil {
			// Nothing is lost with a notification, so it does not wait for the disk.
			_, err = conn.Exec(try, "BEGIN; SET LOCAL synchronous_commit TO off; SELECT pg_notify('"+channel(s.opts.Schema)+"', '"+
				s.says()+"'); COMMIT", pgx.QueryExecModeSimpleProtocol)
		}
		cancel()
		if err != nil {
			if conn != nil {
				_ = conn.Close(context.WithoutCancel(ctx))
				conn = nil
			}
			pause.Reset(relistenAfter)
			s.owing.Store(true)
			s.speak() // once more
		}
	}
}

// hear notes that another gateway is there, and what it says. One that was not is told of this one, so that it notifies too.
func (s *Store) hear(says string) {
	alone := s.Alone()
	now := s.mono.Now()
	s.heard.Store(int64(now))
	if strings.HasSuffix(says, saysWaiting) {
		s.awaitedUntil.Store(int64(now.Add(awaitedFor)))
	}
	hello := strings.HasSuffix(says, saysHello) && now < core.Time(s.waitingUntil.Load())
	if alone || hello || s.owing.Load() && s.awaited() {
		s.speak()
	}
}

// Alone implements core.Shared: no other gateway was heard for long, so that none need be notified. One that cannot be heard looks by itself; who
// does not listen cannot tell.
func (s *Store) Alone() bool {
	heard := core.Time(s.heard.Load())
	return s.listening.Load() && (heard == 0 || s.mono.Now() > heard.Add(heardFor))
}

// tell has other gateways know that this one is there.
func (s *Store) tell(ctx context.Context, says string) error {
	_, err := s.pool.Exec(ctx, "SELECT pg_notify($1, $2)", channel(s.opts.Schema), says)
	return err
}

// ownConnection makes a connection beside the pool.
func (s *Store) ownConnection(ctx context.Context) (*pgx.Conn, error) {
	return pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
}

// errNotHeard tells that notifications do not arrive.
var errNotHeard = errors.New("a notification of our own did not arrive")

// Notify implements core.Shared. A connection that breaks is made again, and f is called then too. It returns an error where
// the server does not know LISTEN, or a pooler keeps notifications away.
func (s *Store) Notify(ctx context.Context, f func()) error {
	const op = "notify"
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	s.life.RUnlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.living, cancel)()
	wait, broken := relistenAfter, false
	for {
		err := s.listen(ctx, f, func() {
			if broken {
				s.opts.Logger.InfoContext(ctx, "notifications of other gateways arrive again")
			}
			wait, broken = relistenAfter, false
		})
		switch {
		case s.living.Err() != nil:
			return core.Errorf(core.CodeClosed, op, "the store is closed")
		case ctx.Err() != nil:
			return core.WrapError(core.CodeCanceled, op, ctx.Err())
		case impossible(err):
			return core.WrapError(core.CodeUnimplemented, op, err)
		case !broken:
			s.opts.Logger.WarnContext(ctx, "notifications of other gateways do not arrive, the connection is made again", "error", err)
			broken = true
		}
		pause := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
		wait = min(2*wait, relistenAtMost)
	}
}

// impossible reports whether an error says that it is no use to listen again.
func impossible(err error) bool {
	var e *pgconn.PgError
	return errors.Is(err, errNotHeard) || errors.As(err, &e) && (strings.HasPrefix(e.Code, "0A") || strings.HasPrefix(e.Code, "42"))
}

// listen calls f after notifications until the connection breaks; heard is called when it has begun.
func (s *Store) listen(ctx context.Context, f, heard func()) error {
	start, cancel := context.WithTimeout(ctx, hearWithin)
	defer cancel()
	conn, err := s.ownConnection(start)
	if err != nil {
		return err
	}
	defer func() {
		s.listening.Store(false)
		_ = conn.Close(context.WithoutCancel(ctx))
	}()
	if _, err := conn.Exec(start, "LISTEN "+channel(s.opts.Schema)); err != nil {
		return err
	}
	own := s.gateway.String()
	// Behind a pooler a notification comes to whoever has the server's connection at that moment: by another one we find out.
	if err := s.tell(start, own+saysHello); err != nil {
		return err
	}
	n, err := conn.WaitForNotification(start)
	if err != nil {
		if ctx.Err() == nil && start.Err() != nil {
			return errNotHeard
		}
		return err
	}
	s.listening.Store(true)
	heard()
	f() // what came before we listened
	for {
		if n != nil && !strings.HasPrefix(n.Payload, own) {
			s.hear(n.Payload)
			f()
		}
		if n, err = next(ctx, conn); err != nil {
			return err
		}
	}
}

// next waits for a notification. Where none comes for long it asks whether the server is still there, and returns nil.
func next(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	patience, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	n, err := conn.WaitForNotification(patience)
	if err == nil || ctx.Err() != nil || patience.Err() == nil {
		return n, err
	}
	check, cancel := context.WithTimeout(ctx, hearWithin)
	defer cancel()
	return nil, conn.Ping(check)
}
