// Command leasehold serves the Queen, Querator and Cloudflare Queues protocols
// over one core of leased batches.
package main

import (
	"os"

	"github.com/leasehold/leasehold/cmd/leasehold/app"
)

func main() {
	os.Exit(app.Main(os.Args[1:], os.Stdout, os.Stderr))
}
