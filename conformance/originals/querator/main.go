// Command querator runs the original Querator server, v0.0.11, with its
// in-memory store, so that "leasehold bench --compare" can measure both in
// turns and the conformance suite can run against it. It is for comparisons
// only and no part of the product.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kapetan-io/querator"
	"github.com/kapetan-io/querator/daemon"
	"github.com/kapetan-io/tackle/clock"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:2399", "address to listen on")
	control := flag.String("control", "", "address of a listener that moves the server's clock, as that of \"leasehold serve --control-addr\"")
	flag.Parse()
	if err := run(*addr, *control); err != nil {
		fmt.Fprintln(os.Stderr, "querator:", err)
		os.Exit(1)
	}
}

func run(addr, control string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	now := clock.NewProvider()
	d, err := daemon.NewDaemon(ctx, daemon.Config{ListenAddress: addr, Service: querator.ServiceConfig{Log: log, Clock: now}})
	if err != nil {
		return err
	}
	if control != "" {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", control)
		if err != nil {
			return err
		}
		server := &http.Server{Handler: movable(now), ReadHeaderTimeout: 10 * time.Second}
		go func() { _ = server.Serve(l) }()
		fmt.Printf("--control http://%s\n", l.Addr())
	}
	fmt.Printf("--compare http://%s --compare-pid %d\n", d.Listener.Addr(), os.Getpid())
	<-ctx.Done()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return d.Shutdown(ending)
}

// movable serves POST /clock with {"op":"freeze","now":RFC 3339} and {"op":"advance","by":duration}.
func movable(now *clock.Provider) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /clock", func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Op, By string
			Now    time.Time
		}
		err := json.NewDecoder(r.Body).Decode(&req)
		var by time.Duration
		switch {
		case err != nil:
		case req.Op == "freeze":
			now.Freeze(req.Now)
		default:
			if by, err = time.ParseDuration(req.By); err == nil && by > 0 {
				now.Advance(by)
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"now": now.Now().UTC()})
	})
	return mux
}
