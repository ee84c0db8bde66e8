package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/leasehold/leasehold/conformance/fleet"
	"github.com/leasehold/leasehold/core/coretest"
)

// opener starts a target: it returns the environment that leads tests to it, and how to end it.
type opener func(context.Context) (env []string, stop func() error, err error)

// defaultTargets are those that a run without further words plays on.
var defaultTargets = []string{"memory", "sqlite", "postgres", "containers", "one-gateway", "querator-v0.0.11"}

var known = map[string]opener{
	"memory":           inProcess("memory"),
	"sqlite":           inProcess("sqlite"),
	"postgres":         inProcess("postgres"),
	"containers":       containers(fleet.Options{Flags: flags}),
	"one-gateway":      containers(fleet.Options{SQLite: true, Flags: flags}),
	"querator-v0.0.11": original,
	"address":          address,
}

// flags let every queue that the cases make have metrics of its own, and start
// the clock where every case begins, so that a restart lets nothing expire.
var flags = []string{"--metrics-queues", "100000", "--control-now", coretest.Start.Format(time.RFC3339)}

// missingError says that this machine cannot run a target.
type missingError struct{ cause error }

func (e *missingError) Error() string { return e.cause.Error() }

func nothing() error { return nil }

func inProcess(store string) opener {
	return func(context.Context) ([]string, func() error, error) {
		env := []string{"CONFORMANCE_STORE=" + store}
		if os.Getenv("CI") != "" {
			env = append(env, "LEASEHOLD_REQUIRE_POSTGRES=1")
		}
		return env, nothing, nil
	}
}

// address runs against what the environment names.
func address(context.Context) ([]string, func() error, error) {
	var env []string
	for _, e := range os.Environ() {
		if strings.HasPrefix(e, "CONFORMANCE_TARGET_") {
			env = append(env, e)
		}
	}
	if len(env) == 0 {
		return nil, nil, errors.New("set CONFORMANCE_TARGET_QUEEN, CONFORMANCE_TARGET_QUERATOR or CONFORMANCE_TARGET_CFQUEUES")
	}
	return env, nothing, nil
}

func containers(o fleet.Options) opener {
	return func(ctx context.Context) ([]string, func() error, error) {
		if err := fleet.Available(); err != nil {
			return nil, nil, &missingError{err}
		}
		f, err := fleet.Start(ctx, o)
		if err != nil {
			return nil, nil, err
		}
		var queen, querator, cfqueues, control []string
		for _, g := range f.Gateways {
			queen, cfqueues = append(queen, g.Queen), append(cfqueues, g.Cfqueues)
			control = append(control, g.Control)
			querator = append(querator, g.Querator)
			for _, family := range fleet.Families {
				querator = append(querator, family+"="+g.Family[family])
			}
		}
		operator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := f.Restart(r.Context()); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}))
		stop := func() error {
			operator.Close()
			return f.Close()
		}
		join := func(name string, urls []string) string { return name + "=" + strings.Join(urls, ",") }
		return []string{
			join("CONFORMANCE_TARGET_QUEEN", queen), join("CONFORMANCE_TARGET_QUERATOR", querator), join("CONFORMANCE_TARGET_CFQUEUES", cfqueues),
			join("CONFORMANCE_CONTROL", control),
			"CONFORMANCE_OPERATOR=" + operator.URL,
		}, stop, nil
	}
}

// original runs the original Querator, as a process of its own with its clock on a control listener.
func original(ctx context.Context) ([]string, func() error, error) {
	dir, err := os.MkdirTemp("", "leasehold-original-")
	if err != nil {
		return nil, nil, err
	}
	binary := dir + "/querator"
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./conformance/originals/querator")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("%w\n%s", err, out)
	}
	cmd := exec.CommandContext(ctx, binary, "-addr", "127.0.0.1:0", "-control", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, nil, err
	}
	stop := func() error {
		_ = cmd.Process.Signal(os.Interrupt)
		ended := time.AfterFunc(15*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // how it ends says nothing about the cases
		ended.Stop()
		return os.RemoveAll(dir)
	}
	lines, urls := bufio.NewScanner(out), map[string]string{}
	for len(urls) < 2 && lines.Scan() {
		words := strings.Fields(lines.Text())
		for i := 0; i+1 < len(words); i += 2 {
			if words[i] == "--compare" || words[i] == "--control" {
				urls[words[i]] = words[i+1]
			}
		}
	}
	if len(urls) < 2 {
		return nil, nil, errors.Join(errors.New("the original did not start"), stop())
	}
	return []string{
		"CONFORMANCE_TARGET_QUERATOR=L1=" + urls["--compare"], "CONFORMANCE_CONTROL=" + urls["--control"],
		"CONFORMANCE_BLANKS_VARY=1",
		"CONFORMANCE_ANSWER_WITHIN=8s", // several cases end when an answer never comes
	}, stop, nil
}
