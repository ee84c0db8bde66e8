// Command profiled is leasehold with a profiler: PPROF_ADDR names the address
// at which net/http/pprof answers. The product has none, since a profile shows
// more than an operator may mean to publish. Measure it with
// "leasehold bench --spawn --binary".
package main

import (
	"fmt"
	"net/http"
	_ "net/http/pprof" //nolint:gosec // exposing profiles is what this program is for
	"os"
	"runtime"
	"time"

	"github.com/leasehold/leasehold/cmd/leasehold/app"
)

func main() {
	if addr := os.Getenv("PPROF_ADDR"); addr != "" {
		runtime.SetMutexProfileFraction(100)
		server := &http.Server{Addr: addr, ReadHeaderTimeout: 10 * time.Second}
		go func() { fmt.Fprintln(os.Stderr, server.ListenAndServe()) }()
	}
	os.Exit(app.Main(os.Args[1:], os.Stdout, os.Stderr))
}
