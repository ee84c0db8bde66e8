// Command run plays the protocols' cases on every target and reports. The cases
// are the adapters' own tests, which ask conformance/target what they run
// against; the same tables run in process over each store, against containers,
// against any address and against the original.
//
//	go run ./conformance/run                     every target that this machine can run
//	go run ./conformance/run -targets containers,one-gateway -protocols queen
//	go run ./conformance/run -serve containers   for "go test -run …" by hand
//	go run ./conformance/run -targets address    what CONFORMANCE_TARGET_… names
//
// Exceptions are declared in conformance/exceptions/TARGET.txt. A case that is
// declared and passes is a failure, as is one that fails undeclared. Without
// Docker the containers' targets are left out and named, under CI that is a failure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() { os.Exit(start()) }

func start() int {
	targets := flag.String("targets", strings.Join(defaultTargets, ","), "what to run against; also: address")
	protocols := flag.String("protocols", "queen,querator,cfqueues", "whose cases to run")
	list := flag.Bool("list", false, "print every case that is excepted, with its reason")
	serve := flag.String("serve", "", "start this target, print the environment that leads tests to it, and wait to be interrupted")
	tolerate := flag.String("tolerate", "", "targets whose problems are reported and do not fail the run")
	limit := flag.Duration("limit", 10*time.Minute, "how long the cases of one protocol may take on one target; what is left then has failed")
	keep := flag.String("keep", "", "folder that keeps each run's raw output")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if *serve != "" {
		if err := hold(ctx, *serve); err != nil {
			fmt.Fprintln(os.Stderr, "conformance:", err)
			return 1
		}
		return 0
	}
	r := &runner{tolerated: strings.Split(*tolerate, ","), protocols: strings.Split(*protocols, ","), list: *list, keep: *keep, limit: *limit}
	if err := r.run(ctx, strings.Split(*targets, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return 1
	}
	return 0
}

// hold keeps a target running for tests that are started by hand.
func hold(ctx context.Context, name string) error {
	t, ok := known[name]
	if !ok {
		return fmt.Errorf("there is no target %q", name)
	}
	env, stop, err := t(ctx)
	if err != nil {
		return err
	}
	for _, e := range env {
		fmt.Println("export " + e)
	}
	<-ctx.Done()
	return stop()
}

// runner plays cases and collects what became of them.
type runner struct {
	protocols []string
	list      bool
	keep      string
	limit     time.Duration
	binaries  map[string]string
	// asking has, by protocol, the pattern of the tests that ask for a target; "" while no target was played.
	asking   map[string]string
	dir      string
	results  []*result
	problems []string
	// warnings are the problems of tolerated targets.
	tolerated []string
	warnings  []string
	left      []string
}

func (r *runner) run(ctx context.Context, names []string) error {
	dir, err := os.MkdirTemp("", "leasehold-conformance-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r.dir = dir
	if err := r.compile(ctx); err != nil {
		return err
	}
	for _, name := range names {
		t, ok := known[name]
		if !ok {
			return fmt.Errorf("there is no target %q: want some of %s, address", name, strings.Join(defaultTargets, ", "))
		}
		err := r.target(ctx, name, t)
		if err != nil && ctx.Err() == nil && slices.Contains(r.tolerated, name) {
			r.warnings = append(r.warnings, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	r.report(os.Stdout)
	if len(r.problems) > 0 {
		return fmt.Errorf("%d problems", len(r.problems))
	}
	return nil
}

// target starts one target, plays the cases of each protocol that it speaks, and ends it.
func (r *runner) target(ctx context.Context, name string, t opener) (err error) {
	exceptions, err := readExceptions(name)
	if err != nil {
		return err
	}
	env, stop, err := t(ctx)
	var missing *missingError
	if errors.As(err, &missing) && os.Getenv("CI") == "" {
		r.left = append(r.left, fmt.Sprintf("%s: %v", name, missing.cause))
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, protocol := range r.protocols {
		speaks := slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "CONFORMANCE_TARGET_"+strings.ToUpper(protocol)+"=") })
		if remote := slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "CONFORMANCE_TARGET_") }); remote && !speaks {
			continue
		}
		began := time.Now()
		got, err := r.play(ctx, name, protocol, env, exceptions[protocol])
		if err != nil {
			return err
		}
		got.took = time.Since(began)
		found := got.judge(exceptions[protocol])
		if got.ended != "" {
			found = append(found, got.ended)
		}
		if slices.Contains(r.tolerated, name) {
			r.warnings = append(r.warnings, found...)
		} else {
			r.problems = append(r.problems, found...)
		}
		r.results = append(r.results, got)
		fmt.Fprintln(os.Stderr, got.line())
	}
	return nil
}
