package bench_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/leasehold/app"
)

// other starts a second server in this process and returns the URL of its
// Queen listener.
func other(t *testing.T) string {
	t.Helper()
	cfg := app.DefaultConfig()
	cfg.Store, cfg.DataDir = "memory:", t.TempDir()
	cfg.QueenAddr, cfg.CfqueuesAddr, cfg.AdminAddr, cfg.QueratorAddr = "127.0.0.1:0", app.Off, app.Off, nil
	a := app.New(cfg, app.Options{Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	select {
	case <-a.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	return "http://" + a.Addr("queen")
}
