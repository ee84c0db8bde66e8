// Command querator runs the original Querator server, v0.0.11, with its
// in-memory store, so that "leasehold bench --compare" can measure both in
// turns. It is for comparisons only and no part of the product.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kapetan-io/querator"
	"github.com/kapetan-io/querator/daemon"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:2399", "address to listen on")
	flag.Parse()
	if err := run(*addr); err != nil {
		fmt.Fprintln(os.Stderr, "querator:", err)
		os.Exit(1)
	}
}

func run(addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	d, err := daemon.NewDaemon(ctx, daemon.Config{ListenAddress: addr, Service: querator.ServiceConfig{Log: log}})
	if err != nil {
		return err
	}
	fmt.Printf("--compare http://%s --compare-pid %d\n", d.Listener.Addr(), os.Getpid())
	<-ctx.Done()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return d.Shutdown(ending)
}
