package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// node is one container that things are done to.
type node struct {
	name      string
	docker    *testcontainers.DockerClient
	container testcontainers.Container
	// relays are the containers through which it and its peers talk.
	relays []string
}

// Name is the node's name in logs and reports.
func (n *node) Name() string { return n.name }

func (n *node) id() string { return n.container.GetContainerID() }

// Kill ends the process with SIGKILL.
func (n *node) Kill(ctx context.Context) error {
	_, err := n.docker.ContainerKill(ctx, n.id(), client.ContainerKillOptions{Signal: "KILL"})
	return n.wrap("kill", err)
}

// Stop ends the process in order, or by force after 40 s.
func (n *node) Stop(ctx context.Context) error {
	patience := 40 * time.Second
	return n.wrap("stop", n.container.Stop(ctx, &patience))
}

// Start starts the process again on the same data. It does not wait until it serves.
func (n *node) Start(ctx context.Context) error {
	for tries := 0; ; tries++ {
		_, err := n.docker.ContainerStart(ctx, n.id(), client.ContainerStartOptions{})
		// A published port may have become the near end of somebody's connection while the container was down.
		if err == nil || tries == startTries || !strings.Contains(err.Error(), "address already in use") {
			return n.wrap("start", err)
		}
		time.Sleep(startAgain)
	}
}

// startTries and startAgain are how often, and after what time, a start is tried again for which a port is not free.
const (
	startTries = 100
	startAgain = 200 * time.Millisecond
)

// Pause stops the process where it is; its connections stay open.
func (n *node) Pause(ctx context.Context) error {
	_, err := n.docker.ContainerPause(ctx, n.id(), client.ContainerPauseOptions{})
	return n.wrap("pause", err)
}

// Resume lets a paused process go on.
func (n *node) Resume(ctx context.Context) error {
	_, err := n.docker.ContainerUnpause(ctx, n.id(), client.ContainerUnpauseOptions{})
	return n.wrap("resume", err)
}

// Cut lets nothing pass between the node and its peers: between a gateway and
// the database, or the database and every gateway. Clients still reach a gateway.
func (n *node) Cut(ctx context.Context) error { return n.tellRelays(ctx, "USR1") }

// Heal undoes Cut.
func (n *node) Heal(ctx context.Context) error { return n.tellRelays(ctx, "USR2") }

func (n *node) tellRelays(ctx context.Context, signal string) error {
	for _, r := range n.relays {
		if _, err := n.docker.ContainerKill(ctx, r, client.ContainerKillOptions{Signal: signal}); err != nil {
			return n.wrap("cut off or heal", err)
		}
	}
	return nil
}

func (n *node) wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, n.name, err)
	}
	return nil
}
