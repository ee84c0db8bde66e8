package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// node is one container that things are done to. Its network may be that of
// another container, the pod.
type node struct {
	name      string
	docker    *testcontainers.DockerClient
	container testcontainers.Container
	// holder has the network that Cut and Heal work on; aliases are its names there.
	holder  string
	network string
	aliases []string
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
	_, err := n.docker.ContainerStart(ctx, n.id(), client.ContainerStartOptions{})
	return n.wrap("start", err)
}

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

// Cut takes the node off the network between gateways and database. Its clients still reach it.
func (n *node) Cut(ctx context.Context) error {
	_, err := n.docker.NetworkDisconnect(ctx, n.network, client.NetworkDisconnectOptions{Container: n.holder, Force: true})
	return n.wrap("cut off", err)
}

// Heal undoes Cut.
func (n *node) Heal(ctx context.Context) error {
	_, err := n.docker.NetworkConnect(ctx, n.network, client.NetworkConnectOptions{
		Container: n.holder, EndpointConfig: &network.EndpointSettings{Aliases: n.aliases},
	})
	return n.wrap("heal", err)
}

func (n *node) wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, n.name, err)
	}
	return nil
}
