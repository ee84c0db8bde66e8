package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	tcnetwork "github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"
)

// The ports inside a gateway's network.
const (
	queenPort, queratorPort, cfqueuesPort, adminPort = 6632, 2319, 8790, 8400
	controlPort, relayPort                           = 8500, 8501
)

// Families are the generations of Querator that have a listener of their own, from queratorPort+1 on.
var Families = []string{"R1", "R2", "L1", "L2"}

// startTimeout bounds how long a container may need to serve.
const startTimeout = 60 * time.Second

// Options say what to run.
type Options struct {
	// Gateways is how many there are; default 2 with PostgreSQL, 1 without.
	Gateways int
	// SQLite runs one gateway on its embedded store and no database.
	SQLite bool
	// Flags are further flags of "serve".
	Flags []string
}

// Fleet is what runs.
type Fleet struct {
	// Database is nil with SQLite.
	Database *Database
	Gateways []*Gateway

	closers []func(context.Context) error
}

// Database is the PostgreSQL container.
type Database struct{ node }

// Gateway is one server and its addresses, which never change.
type Gateway struct {
	node
	// Queen, Querator, Cfqueues, Admin and Control are base URLs without a slash at the end.
	Queen, Querator, Cfqueues, Admin, Control string
	// Family has the URL of each generation's own listener.
	Family map[string]string
}

// Start builds the images if need be, and runs a fleet until Close. Ryuk, the
// container that testcontainers cleans up with, is not used: its image may not be there.
func Start(ctx context.Context, o Options) (_ *Fleet, err error) {
	for name, value := range map[string]string{"TESTCONTAINERS_RYUK_DISABLED": "true", "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1"} {
		if os.Getenv(name) == "" {
			if err := os.Setenv(name, value); err != nil {
				return nil, err
			}
		}
	}
	log.SetDefault(log.NewNoopLogger()) // each step of each container would drown what tests say
	names, err := prepared()
	if err != nil {
		return nil, err
	}
	cli, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("docker: %w", err)
	}
	f := &Fleet{closers: []func(context.Context) error{func(context.Context) error { return cli.Close() }}}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	back, err := tcnetwork.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	f.closers = append(f.closers, back.Remove)
	b := &builder{fleet: f, docker: cli, images: names, network: back, options: o}
	if !o.SQLite {
		if err := b.database(ctx); err != nil {
			return nil, err
		}
	}
	for i := range max(o.Gateways, map[bool]int{true: 1, false: 2}[o.SQLite]) {
		if err := b.gateway(ctx, i+1); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Close removes everything.
func (f *Fleet) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*startTimeout)
	defer cancel()
	var failed []error
	for i := len(f.closers) - 1; i >= 0; i-- {
		failed = append(failed, f.closers[i](ctx))
	}
	f.closers = nil
	return errors.Join(failed...)
}

// builder starts the parts of a fleet.
type builder struct {
	fleet   *Fleet
	docker  *testcontainers.DockerClient
	images  images
	network *testcontainers.DockerNetwork
	options Options
}

// run starts a container that Close removes, volumes included.
func (b *builder) run(ctx context.Context, image string, with ...testcontainers.ContainerCustomizer) (testcontainers.Container, error) {
	c, err := testcontainers.Run(ctx, image, with...)
	words := ""
	if c != nil {
		if err != nil {
			words = lastWords(ctx, c)
		}
		b.fleet.closers = append(b.fleet.closers, func(ctx context.Context) error {
			return testcontainers.TerminateContainer(c, testcontainers.StopContext(ctx), testcontainers.StopTimeout(0))
		})
	}
	if err != nil {
		return nil, fmt.Errorf("run %s: %w%s", image, err, words)
	}
	return c, nil
}

func (b *builder) database(ctx context.Context) error {
	c, err := b.run(ctx, b.images.postgres,
		testcontainers.WithEnv(map[string]string{"POSTGRES_USER": "leasehold", "POSTGRES_PASSWORD": "leasehold", "POSTGRES_DB": "leasehold"}),
		tcnetwork.WithNetwork([]string{"postgres"}, b.network),
		testcontainers.WithCmdArgs("-c", "max_connections=200"),
		testcontainers.WithWaitStrategyAndDeadline(startTimeout,
			wait.ForExec([]string{"pg_isready", "-q", "-h", "127.0.0.1", "-U", "leasehold", "-d", "leasehold"}).WithPollInterval(100*time.Millisecond)))
	if err != nil {
		return err
	}
	b.fleet.Database = &Database{node{name: "database", docker: b.docker, container: c}}
	return nil
}

// gateway starts a pod, which has the network and the published ports, and the server inside it.
func (b *builder) gateway(ctx context.Context, number int) error {
	ports := []int{queenPort, queratorPort, cfqueuesPort, adminPort, relayPort}
	for i := range Families {
		ports = append(ports, queratorPort+1+i)
	}
	exposed := make([]string, len(ports))
	for i, p := range ports {
		exposed[i] = fmt.Sprintf("%d/tcp", p)
	}
	pod, err := b.run(ctx, b.images.relay,
		testcontainers.WithCmd(fmt.Sprintf(":%d=127.0.0.1:%d", relayPort, controlPort), "-cut", "127.0.0.1:5432=postgres:5432"),
		tcnetwork.WithNetwork([]string{fmt.Sprintf("gateway-%d", number)}, b.network),
		testcontainers.WithExposedPorts(exposed...), testcontainers.WithHostConfigModifier(onLoopback(exposed)))
	if err != nil {
		return err
	}
	n := node{name: fmt.Sprintf("gateway-%d", number), docker: b.docker, relays: []string{pod.GetContainerID()}}
	if b.fleet.Database != nil {
		b.fleet.Database.relays = append(b.fleet.Database.relays, pod.GetContainerID())
	}
	n.container, err = b.run(ctx, b.images.gateway, testcontainers.WithCmd(b.command()...),
		testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
			h.NetworkMode = container.NetworkMode("container:" + pod.GetContainerID())
		}))
	if err != nil {
		return err
	}
	g := &Gateway{node: n, Family: map[string]string{}}
	where := map[int]*string{queenPort: &g.Queen, queratorPort: &g.Querator, cfqueuesPort: &g.Cfqueues, adminPort: &g.Admin, relayPort: &g.Control}
	for _, p := range ports {
		url, err := pod.PortEndpoint(ctx, fmt.Sprintf("%d/tcp", p), "http")
		if err != nil {
			return fmt.Errorf("%s: port %d: %w", n.name, p, err)
		}
		if to := where[p]; to != nil {
			*to = url
		} else {
			g.Family[Families[p-queratorPort-1]] = url
		}
	}
	b.fleet.Gateways = append(b.fleet.Gateways, g)
	if err := g.WaitReady(ctx); err != nil {
		return fmt.Errorf("%w%s", err, lastWords(ctx, n.container))
	}
	return nil
}

// command is the server's command line.
func (b *builder) command() []string {
	args := []string{
		"serve", "--insecure", "--log-format", "json", "--queen-addr", fmt.Sprintf(":%d", queenPort),
		"--querator-addr", fmt.Sprintf(":%d", queratorPort), "--cfqueues-addr", fmt.Sprintf(":%d", cfqueuesPort),
		"--admin-addr", fmt.Sprintf(":%d", adminPort), "--control-addr", fmt.Sprintf("127.0.0.1:%d", controlPort),
	}
	for i, family := range Families {
		args = append(args, "--querator-addr", fmt.Sprintf("%s=:%d", family, queratorPort+1+i))
	}
	if !b.options.SQLite {
		args = append(args, "--store", "postgres://leasehold:leasehold@127.0.0.1:5432/leasehold?sslmode=disable")
	}
	return append(args, b.options.Flags...)
}

// onLoopback publishes ports on 127.0.0.1 only, each on a free one.
func onLoopback(ports []string) func(*container.HostConfig) {
	return func(h *container.HostConfig) {
		h.PortBindings = network.PortMap{}
		for _, p := range ports {
			h.PortBindings[network.MustParsePort(p)] = []network.PortBinding{{HostIP: netip.MustParseAddr("127.0.0.1")}}
		}
	}
}

// Restart ends every gateway in order and starts it again; it returns when all serve.
func (f *Fleet) Restart(ctx context.Context) error {
	failed := make(chan error)
	for _, g := range f.Gateways {
		go func() {
			failed <- errors.Join(g.Stop(ctx), g.Start(ctx), g.WaitReady(ctx))
		}()
	}
	var all []error
	for range f.Gateways {
		all = append(all, <-failed)
	}
	return errors.Join(all...)
}

// WaitReady returns once the gateway says that it can serve.
func (g *Gateway) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := ask(ctx, g.Admin+"/readyz")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", g.name, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func ask(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r.Close = true
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	return nil
}

// Log returns the end of what a gateway or the database has logged.
func (n *node) Log(ctx context.Context) string { return lastWords(ctx, n.container) }

// lastWords is the end of a container's log, for messages.
func lastWords(ctx context.Context, c testcontainers.Container) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	log, err := c.Logs(ctx)
	if err != nil {
		return ""
	}
	defer func() { _ = log.Close() }()
	all, err := io.ReadAll(log)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(all)), "\n")
	return "\n" + strings.Join(lines[max(0, len(lines)-30):], "\n")
}
