package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

// Command is the grammar of "leasehold bench".
type Command struct {
	Run     runCmd     `cmd:"" default:"withargs" help:"Measure loads next to their floors."`
	Restart restartCmd `cmd:"" help:"Measure a start on a full store: time until ready, memory per waiting message."`
	Parked  parkedCmd  `cmd:"" help:"Measure many parked long polls: memory per poll, idle CPU, whom a push wakes."`
	Bars    barsCmd    `cmd:"" help:"Measure all that the embedded store is held to, and say what is reached."`
	Failing failingCmd `cmd:"" help:"Measure what a queue leaves in the store when all deliveries fail: rows per message."`
	Floor   floorCmd   `cmd:"" help:"Serve the HTTP floor, for another load generator to measure."`
}

// runCmd are the flags of the loads.
type runCmd struct {
	Protocol string `default:"queen" enum:"queen,querator,cfqueues" help:"Protocol to speak: queen, querator or cfqueues."`
	URL      string `help:"Server to measure." placeholder:"URL" xor:"server"`
	Spawn    bool   `help:"Start a server of this program on a scratch store and measure that." xor:"server"`
	Store    string `help:"Store of the server that --spawn starts. Default: SQLite in the scratch folder." placeholder:"URL"`
	Gateways int    `default:"1" help:"Servers that --spawn starts on one PostgreSQL; the clients are spread over them."`
	Binary   string `help:"Program that --spawn starts instead of this one." placeholder:"FILE" type:"path"`
	PID      int    `help:"Process of the server at --url, if it runs here and its CPU and memory are wanted." placeholder:"PID"`

	Compare    string `help:"Second server, measured in turns with the first." placeholder:"URL"`
	ComparePID int    `help:"Process of the server at --compare." placeholder:"PID"`

	Loads      []string      `default:"push:1x32,push:1x256,push:100x8,settle:1x32,settle:100x8" help:"Loads: push, settle (claim and settle from a backlog), take (claim with autoAck from a backlog, queen only), both (push and settle at once), or fail (claim and give back as failed), then :BATCHxCLIENTS; both:BATCHxPRODUCERS+CONSUMERS where they differ." placeholder:"LOAD"`
	Runs       int           `default:"5" help:"Rounds of server, floors and second server, of which the medians are shown."`
	Seconds    float64       `default:"5" help:"Length of each measurement."`
	Warmup     time.Duration `default:"2s" help:"Unmeasured time before the first round of a load."`
	Rate       float64       `help:"Open loop: messages per second that are sent, or claimed, whatever the server does; latency counts from when each was to be sent. With 'both' the consumers wait, and the time from push to delivery is shown (queen)." placeholder:"N"`
	Payload    int           `default:"100" help:"Bytes per message."`
	Partitions int           `help:"Partitions of the queue. Default: 64 for queen, 1 for querator; cfqueues has none of them." placeholder:"N"`
	Queues     int           `default:"1" help:"Queues, which the clients visit in turn."`
	Groups     int           `default:"1" help:"Consumer groups (queen only), each of which gets every message."`
	Backlog    int           `help:"Messages that wait in the queue when a measurement begins; one of settling ends when all are settled. Default: as many as the load needs to settle all the time." placeholder:"N"`
	FillBatch  int           `default:"100" help:"Messages per request when the backlog is filled."`
	IDs        bool          `name:"ids" help:"Give each message a transaction id of its own (queen only), which puts deduplication to work."`
	Delay      int           `help:"Delay each message by so many seconds (cfqueues, push loads)." placeholder:"SECONDS"`
	Floors     bool          `default:"true" help:"Measure the floors as well." negatable:""`
	Encoding   string        `default:"json" enum:"json,protobuf" help:"Bodies that are sent: json, or protobuf (querator only, without the HTTP floor, which knows JSON alone)."`
	Driver     string        `default:"auto" enum:"auto,epoll,goroutines" help:"How connections are driven: epoll (one thread, light, Linux only) or goroutines. Default: epoll where it exists."`
	Account    string        `default:"bench" help:"Cloudflare account in the paths."`
	Header     []string      `help:"Header to send with every request, e.g. for a token." placeholder:"NAME: VALUE" sep:"none"`
	Scratch    string        `help:"Folder for scratch files, on the disk to be measured. Default: the system's." placeholder:"DIR" type:"path"`
	JSON       bool          `name:"json" help:"Write the results as a list of JSON objects; the table then goes to standard error."`
	// Reference has each round look how fast the machine is.
	Reference bool `kong:"-"`
}

// Exit codes, those of the whole program.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// exit carries kong's wish to end the process, e.g. after --help.
type exit int

// Main runs "leasehold bench" with the arguments after that word and returns
// the process's exit code.
func Main(args []string, stdout, stderr io.Writer) (code int) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(exit)
			if !ok {
				panic(r)
			}
			code = int(e)
		}
	}()
	var c Command
	parser, err := kong.New(&c, kong.Name("leasehold bench"),
		kong.Description("Measure a server through its protocol, next to what the machine can do at that moment."),
		kong.Writers(stdout, stderr), kong.Exit(func(n int) { panic(exit(n)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "leasehold bench:", err)
		return exitFailed
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "leasehold bench:", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	switch parsed.Command() {
	case "floor":
		err = c.Floor.run(ctx, os.Stdin, stdout)
	case "restart":
		err = c.Restart.run(ctx, stdout, stderr)
	case "parked":
		err = c.Parked.run(ctx, stdout, stderr)
	case "bars":
		err = c.Bars.run(ctx, stdout, stderr)
	case "failing":
		err = c.Failing.run(ctx, stdout, stderr)
	default:
		err = c.Run.run(ctx, stdout, stderr)
	}
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		_, _ = fmt.Fprintln(stderr, "leasehold bench:", err)
		return exitUsage
	}
	_, _ = fmt.Fprintln(stderr, "leasehold bench:", err)
	return exitFailed
}

// usageError is a combination of flags that makes no sense.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// options are how the fleets of the loads are driven.
func (r *runCmd) options() options { return options{driver: r.Driver, rate: r.Rate} }

// marks says whether the pushes of a load are numbered, so that deliveries can be timed.
func (r *runCmd) marks(l load) bool {
	return r.Rate > 0 && l.kind == kindBoth && r.Protocol == "queen" && r.Payload >= markDigits+2
}

// check looks at the flags as a whole, fills in what depends on the protocol,
// and returns the loads.
func (r *runCmd) check() ([]load, error) {
	loads, err := parseLoads(r.Loads)
	if err != nil {
		return nil, usagef("%v", err)
	}
	if r.Partitions == 0 {
		if r.Partitions = 1; r.Protocol == "queen" {
			r.Partitions = 64
		}
	}
	limit := maxBatch[r.Protocol]
	r.FillBatch = min(r.FillBatch, limit)
	switch {
	case r.URL == "" && !r.Spawn:
		return nil, usagef("give --url, or --spawn")
	case r.Runs < 1, r.Seconds <= 0, r.Payload < 2, r.Payload > 1<<20, r.FillBatch < 1, r.Rate < 0, r.Backlog < 0, r.Groups < 1, r.Queues < 1, r.Delay < 0:
		return nil, usagef("a number is out of range: --runs, --fill-batch, --queues and --groups start at 1, --payload is 2 to 1048576 bytes")
	case r.Partitions < 1 || len(strconv.Itoa(r.Partitions-1)) > partitionDigits:
		return nil, usagef("--partitions: want 1 to 10000000")
	case r.Protocol != "queen" && (r.Groups > 1 || r.IDs):
		return nil, usagef("--groups and --ids are for --protocol queen")
	case r.Protocol == "cfqueues" && r.Partitions > 1:
		return nil, usagef("--partitions: Cloudflare's protocol has none")
	case r.Gateways < 1 || r.Gateways > 1 && (!r.Spawn || !strings.HasPrefix(r.Store, "postgres")):
		return nil, usagef("--gateways: several need --spawn and a PostgreSQL as --store")
	case r.Protocol != "queen" && slices.ContainsFunc(loads, func(l load) bool { return l.kind == kindTake }):
		return nil, usagef("--loads: take is for --protocol queen")
	case r.Encoding != "json" && (r.Protocol != "querator" || r.Floors):
		return nil, usagef("--encoding protobuf is for --protocol querator with --no-floors")
	case r.Delay > 0 && r.Protocol != "cfqueues":
		return nil, usagef("--delay is for --protocol cfqueues")
	case slices.ContainsFunc(loads, func(l load) bool { return l.batch > limit }):
		return nil, usagef("--loads: %s allows %d messages per request", r.Protocol, limit)
	case r.Delay > 0 && slices.ContainsFunc(loads, func(l load) bool { return l.kind != kindPush }):
		return nil, usagef("--delay is for push loads: nobody could claim the messages")
	case slices.ContainsFunc(r.Header, func(h string) bool { return !strings.Contains(h, ":") || strings.ContainsAny(h, "\r\n") }):
		return nil, usagef("--header: want NAME: VALUE")
	}
	return loads, nil
}

// hostOf is the host:port of a server's URL.
func hostOf(flag, s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return "", usagef("--%s: %q is not http://HOST:PORT", flag, s)
	}
	if u.Port() == "" {
		return u.Host + ":80", nil
	}
	return u.Host, nil
}
