//go:build unix

package testenv

import (
	"context"
	"fmt"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// container starts PostgreSQL in Docker.
func container() (url string, stop func(), err error) {
	defer func() {
		if r := recover(); r != nil { // testcontainers panics where it finds no Docker
			err = fmt.Errorf("docker: %v", r)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := testcontainers.Run(ctx, "postgres:15-alpine",
		testcontainers.WithEnv(map[string]string{"POSTGRES_HOST_AUTH_METHOD": "trust"}),
		testcontainers.WithExposedPorts("5432/tcp"),
		testcontainers.WithWaitStrategy(wait.ForListeningPort("5432/tcp")))
	if err != nil {
		return "", nil, fmt.Errorf("docker: %w", err)
	}
	stop = func() { _ = testcontainers.TerminateContainer(c) }
	host, err := c.PortEndpoint(ctx, "5432/tcp", "")
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("docker: %w", err)
	}
	url = "postgres://postgres@" + host + "/postgres?sslmode=disable"
	return url, stop, ping(url, time.Now().Add(30*time.Second))
}
