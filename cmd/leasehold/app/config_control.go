package app

import (
	"time"

	"github.com/leasehold/leasehold/core"
)

// ControlConfig is what tests can be told about the server's clock beyond the
// address of its control listener.
type ControlConfig struct {
	ControlNow string `env:"LEASEHOLD_CONTROL_NOW" help:"For tests only, with --control-addr: the moment (RFC 3339) at which the clock stands from the start until it is moved." placeholder:"TIME" validate:"omitempty,datetime=2006-01-02T15:04:05Z07:00"`
}

// stand stops the clock before anything has looked at it, so that a server
// restarted in the middle of a test never sees the machine's time.
func (c ControlConfig) stand(clock *adjustableClock) {
	if at, err := time.Parse(time.RFC3339, c.ControlNow); err == nil {
		clock.freeze(core.TimeOf(at))
	}
}
