package admin_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/leasehold/leasehold/adapters/admin"
)

// figures stands for the metrics of a server.
var figures = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "leasehold_x 1\n") })

func get(h http.Handler, method, path, authorization string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestRoutes(t *testing.T) {
	h := admin.New(admin.Options{Metrics: figures})
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/healthz", 200, `{"status":"ok"}`},
		{"GET", "/readyz", 200, `{"status":"ready"}`},
		{"POST", "/healthz", 405, `{"error":"only GET and HEAD are allowed here"}`},
		{"GET", "/nope", 404, `{"error":"no such route"}`},
		{"GET", "/healthz/", 404, `{"error":"no such route"}`},
	} {
		w := get(h, c.method, c.path, "")
		assert.Equal(t, c.status, w.Code, c.path)
		assert.JSONEq(t, c.body, w.Body.String(), c.path)
	}
	assert.Equal(t, "leasehold_x 1\n", get(h, "GET", "/metrics", "").Body.String())
}

func TestNotReadyShowsTheCauseInTheLogOnly(t *testing.T) {
	var log bytes.Buffer
	h := admin.New(admin.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Ready:  func(context.Context) error { return errors.New("disk on fire") },
	})
	w := get(h, "GET", "/readyz", "")
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.JSONEq(t, `{"status":"unavailable"}`, w.Body.String())
	assert.Contains(t, log.String(), "disk on fire")
	assert.Equal(t, http.StatusOK, get(h, "GET", "/healthz", "").Code, "a server that cannot work still lives")
}

func TestTokenGuardsAllButTheProbes(t *testing.T) {
	h := admin.New(admin.Options{Metrics: figures, Token: "hush"})
	for header, status := range map[string]int{
		"": 401, "Bearer": 401, "Bearer ": 401, "Bearer hus": 401, "Bearer hush2": 401, "Basic hush": 401, "hush": 401,
		"Bearer hush": 200, "bearer hush": 200,
	} {
		assert.Equal(t, status, get(h, "GET", "/metrics", header).Code, "%q", header)
		assert.Equal(t, 200, get(h, "GET", "/healthz", header).Code)
		assert.Equal(t, 200, get(h, "GET", "/readyz", header).Code)
	}
}
