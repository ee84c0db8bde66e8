package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/leasehold/leasehold/core"
)

// maxControlBody bounds a request to the control listener, in bytes.
const maxControlBody = 64 << 10

// control is the test-only listener: it moves the server's clock, holds
// queues and forgets what outlives queues. The first two of its routes are those
// that the Querator test suites expect of a server under test.
type control struct {
	clock  *adjustableClock
	pause  func(ctx context.Context, queue string, pause bool) error
	forget func(ctx context.Context) error
}

func (c *control) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /clock", c.serveClock)
	mux.HandleFunc("POST /pause", c.servePause)
	mux.HandleFunc("POST /forget", c.serveForget)
	return mux
}

// serveClock answers POST /clock: {"op":"freeze","now":RFC 3339},
// {"op":"advance","by":"2m0s"} or {"op":"unfreeze"}. It answers with the time
// that the server now has.
func (c *control) serveClock(w http.ResponseWriter, r *http.Request) {
	var req struct{ Op, Now, By string }
	if !readControl(w, r, &req) {
		return
	}
	switch req.Op {
	case "freeze":
		at, err := time.Parse(time.RFC3339Nano, req.Now)
		if err != nil {
			refuseControl(w, fmt.Errorf("now: %w", err))
			return
		}
		c.clock.freeze(core.TimeOf(at))
	case "advance":
		by, err := time.ParseDuration(req.By)
		if err == nil && by < 0 {
			err = errors.New("time does not go back")
		}
		if err != nil {
			refuseControl(w, fmt.Errorf("by: %w", err))
			return
		}
		c.clock.advance(by)
	case "unfreeze":
		c.clock.unfreeze()
	default:
		refuseControl(w, fmt.Errorf("op: %q is not freeze, advance or unfreeze", req.Op))
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"now": c.clock.Now().Std().Format(time.RFC3339Nano)})
}

// servePause answers POST /pause: {"queue_name":"…","pause":true}.
func (c *control) servePause(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Queue string `json:"queue_name"`
		Pause *bool  `json:"pause"`
	}
	if !readControl(w, r, &req) {
		return
	}
	if req.Queue == "" || req.Pause == nil {
		refuseControl(w, errors.New("queue_name and pause are required"))
		return
	}
	if err := c.pause(r.Context(), req.Queue, *req.Pause); err != nil {
		refuseControl(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"queue_name": req.Queue, "pause": *req.Pause})
}

// serveForget answers POST /forget: traces and stream processors' queries are deleted.
func (c *control) serveForget(w http.ResponseWriter, r *http.Request) {
	if err := c.forget(r.Context()); err != nil {
		refuseControl(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]bool{"forgotten": true})
}

// readControl decodes a body strictly, or answers 400.
func readControl(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(io.LimitReader(r.Body, maxControlBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		refuseControl(w, err)
		return false
	}
	return true
}

func refuseControl(w http.ResponseWriter, err error) {
	writeJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A failure here means that the client has gone.
	_ = json.NewEncoder(w).Encode(v)
}
