package app

import (
	"time"

	"github.com/leasehold/leasehold/adapters/queen"
)

// SpoolConfig is what "leasehold serve" can be told about the spool of Queen's
// pushes and about the history of Queen's figures.
type SpoolConfig struct {
	QueenSpoolDir         string        `env:"LEASEHOLD_QUEEN_SPOOL_DIR" help:"Folder for pushes that wait while push maintenance is on or the store is away. Default: queen-spool in the data directory." placeholder:"DIR"`
	QueenSpoolBytes       int64         `default:"1073741824" env:"LEASEHOLD_QUEEN_SPOOL_BYTES" help:"How large that folder may get; further pushes fail. Default: ${default}." placeholder:"BYTES" validate:"gte=65536"`
	QueenSpoolWait        time.Duration `default:"1m" env:"LEASEHOLD_QUEEN_SPOOL_WAIT" help:"How long this server's spool waits for another server that has earlier messages of the same partition in its own and does not drain them. Default: ${default}." placeholder:"TIME" validate:"gte=1s"`
	QueenMetricsRetention time.Duration `default:"2160h" env:"LEASEHOLD_QUEEN_METRICS_RETENTION" help:"How long the figures of Queen's dashboard routes are kept by the hour; by the minute they are kept for a day. Default: ${default}." placeholder:"TIME" validate:"gte=1h"`
}

func defaultSpoolConfig() SpoolConfig {
	return SpoolConfig{QueenSpoolBytes: 1 << 30, QueenSpoolWait: queen.DefaultHoldFor, QueenMetricsRetention: 90 * 24 * time.Hour}
}
