package http1

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// piped is a server whose connections are pipes, so that its time can be a bubble's.
type piped struct {
	*Server

	t  *testing.T
	ln *given
}

func startPiped(t *testing.T, h http.HandlerFunc) *piped {
	t.Helper()
	s := &piped{Server: &Server{Handler: h, HeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}, t: t, ln: newGiven(&net.TCPAddr{})}
	go func() { _ = s.Serve(s.ln) }()
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (s *piped) dial() *client {
	mine, theirs := net.Pipe()
	s.t.Cleanup(func() { _ = mine.Close() })
	s.ln.give(theirs)
	return &client{Conn: mine, t: s.t, r: bufio.NewReader(mine)}
}

// closedAfter returns how long the server leaves a connection open.
func (c *client) closedAfter() time.Duration {
	start := time.Now()
	_, _ = io.ReadAll(c.r)
	return time.Since(start)
}

func TestConnectionsThatRestAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startPiped(t, echo)
		silent := s.dial()
		rest := silent.closedAfter()
		assert.True(t, rest >= 10*time.Second && rest <= 15*time.Second, "%v without a byte", rest)

		c := s.dial()
		for range 3 {
			c.send(get("/"))
			c.answer()
			time.Sleep(50 * time.Second) // of the bubble: less than the limit
		}
		rest = 50*time.Second + c.closedAfter()
		assert.True(t, rest >= time.Minute && rest <= 75*time.Second, "%v between requests", rest)

		half := s.dial()
		half.send("GET / HTTP/1.1\r\nHo")
		assert.Equal(t, 10*time.Second, half.closedAfter().Round(time.Second), "half a head")
	})
}

func TestALongRequestIsNoRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startPiped(t, func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(10 * time.Minute):
				_, _ = io.WriteString(w, "patience")
			case <-r.Context().Done():
			}
		})
		c := s.dial()
		for range 2 {
			c.send(get("/"))
			_, body := c.answer()
			assert.Equal(t, "patience", body)
		}
	})
}

func TestTheContextEndsWhenTheClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, left := make(chan struct{}), make(chan time.Duration)
		s := startPiped(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			entered <- struct{}{}
			start := time.Now()
			<-r.Context().Done()
			left <- time.Since(start)
		})
		for _, stay := range []time.Duration{0, watchAfter / 2, time.Hour} {
			for _, req := range []string{get("/"), post("/", "body")} {
				c := s.dial()
				c.send(req)
				<-entered
				time.Sleep(stay)
				require.NoError(t, c.Close())
				assert.LessOrEqual(t, <-left, stay+watchAfter)
			}
		}
	})
}

func TestTheContextEndsWhenTheClientLeavesAfterASlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, left := make(chan struct{}), make(chan struct{})
		s := startPiped(t, func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			close(read)
			<-r.Context().Done()
			close(left)
		})
		c := s.dial()
		c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\na")
		time.Sleep(time.Second)
		c.send("b")
		<-read
		require.NoError(t, c.Close())
		<-left
	})
}

func TestARequestSentWhileTheLastOneIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startPiped(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			assert.NoError(t, r.Context().Err())
			echo(w, r)
		})
		c := s.dial()
		c.send(get("/1"))
		time.Sleep(time.Second / 2)
		sent := make(chan struct{})
		go func() { c.send(post("/2", "x")); close(sent) }()
		_, body := c.answer()
		assert.Equal(t, `GET /1 h "" <nil>`, body)
		<-sent
		_, body = c.answer()
		assert.Equal(t, `POST /2 h "x" <nil>`, body)
	})
}

func TestShutdownWaitsForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startPiped(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(3 * time.Second)
			assert.NoError(t, r.Context().Err())
			_, _ = io.WriteString(w, "done")
		})
		c, quiet, odd := s.dial(), s.dial(), s.dial()
		c.send(get("/"))
		odd.send("GET / HTTP/1.1\r\nHost: h\r\nPragma: x\r\n\r\n") // net/http's
		time.Sleep(time.Second)
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(context.Background()) }()
		quiet.ends()
		for _, cl := range []*client{c, odd} {
			resp, body := cl.answer()
			assert.Equal(t, "done", body)
			assert.True(t, resp.Close)
			cl.ends()
		}
		require.NoError(t, <-ended)
	})
}

func TestShutdownAnswersWhatHasArrived(t *testing.T) {
	for range 50 {
		s := start(t, echo)
		c := s.dial()
		c.send(get("/0"))
		c.answer()
		c.send(get("/1"))
		require.NoError(t, s.Shutdown(t.Context()))
		_, body := c.answer()
		assert.Equal(t, `GET /1 h "" <nil>`, body)
		c.ends()
	}
}

func TestShutdownThatTakesTooLongAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan struct{})
		s := startPiped(t, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			close(left)
		})
		c := s.dial()
		c.send(get("/"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
		require.NoError(t, s.Close())
		<-left
		require.ErrorIs(t, s.Serve(newGiven(&net.TCPAddr{})), http.ErrServerClosed)
	})
}
