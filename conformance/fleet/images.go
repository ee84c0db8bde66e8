package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// The environment that names images.
const (
	PostgresImageVariable = "CONFORMANCE_POSTGRES_IMAGE"
	GatewayImageVariable  = "CONFORMANCE_GATEWAY_IMAGE"
)

// The images that are built from the tree.
const (
	builtGateway = "leasehold:conformance"
	builtRelay   = "leasehold-relay:conformance"
)

// version is what the gateway says of itself: that of the build whose answers the recorded conversations have.
const version = "dev-build"

const module = "github.com/leasehold/leasehold"

// images are the names of what a fleet is made of.
type images struct{ postgres, gateway, relay string }

// prepared builds what is missing, once per process.
var prepared = sync.OnceValues(func() (images, error) {
	i := images{postgres: os.Getenv(PostgresImageVariable), gateway: os.Getenv(GatewayImageVariable), relay: builtRelay}
	if i.postgres == "" {
		i.postgres = "postgres:17"
	}
	if i.gateway == "" {
		i.gateway = builtGateway
		if err := build(builtGateway, module+"/cmd/leasehold", "VOLUME /data\nENV LEASEHOLD_DATA_DIR=/data\nENTRYPOINT [\"/program\"]\n"); err != nil {
			return images{}, err
		}
	}
	return i, build(builtRelay, module+"/conformance/fleet/relay", "ENTRYPOINT [\"/program\"]\n")
})

// build compiles a command as a static binary and puts it into an image FROM scratch.
func build(image, command, more string) error {
	dir, err := os.MkdirTemp("", "leasehold-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "program")
	ctx := context.Background()
	compile := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w -X "+module+"/cmd/leasehold/app.Version="+version, "-o", program, command)
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", command, err, out)
	}
	file := filepath.Join(dir, "Dockerfile")
	if err := os.WriteFile(file, []byte("FROM scratch\nCOPY program /program\n"+more), 0o600); err != nil {
		return err
	}
	return docker("build", "-q", "-t", image, dir)
}

// docker runs the command line client, whose output is shown when it fails.
func docker(args ...string) error {
	cmd := exec.CommandContext(context.Background(), "docker", args...)
	cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("docker %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// Available says why containers cannot be run here, nil where they can.
func Available() error { return docker("version", "--format", "{{.Server.Version}}") }
