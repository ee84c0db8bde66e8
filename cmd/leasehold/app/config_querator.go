package app

import (
	"errors"
	"strings"

	"github.com/leasehold/leasehold/adapters/querator"
)

// EnvQueratorRootKey names the variable with an API key that is always valid
// on the Querator listeners and stored nowhere. There is no flag for it, since
// every user of a machine sees flags.
const EnvQueratorRootKey = "LEASEHOLD_QUERATOR_ROOT_KEY"

// QueratorConfig is what "leasehold serve" can be told about the Querator
// listeners. The limits' defaults are the original's.
type QueratorConfig struct {
	QueratorRequireKey       bool  `env:"LEASEHOLD_QUERATOR_REQUIRE_KEY" help:"Refuse requests without a valid API key. Keys are made with /v1/apikeys.create, by the root key of LEASEHOLD_QUERATOR_ROOT_KEY or, where none is set, by anyone until the first one exists."`
	QueratorMaxProduceBytes  int64 `default:"5000000" env:"LEASEHOLD_QUERATOR_MAX_PRODUCE_BYTES" help:"Largest body of queue.produce. Default: ${default}." placeholder:"BYTES" validate:"gte=1024"`
	QueratorMaxProduceBatch  int   `default:"1000" env:"LEASEHOLD_QUERATOR_MAX_PRODUCE_BATCH" help:"Most items of one produce. Default: ${default}." placeholder:"N" validate:"gte=1,lte=100000"`
	QueratorMaxLeaseBatch    int   `default:"1000" env:"LEASEHOLD_QUERATOR_MAX_LEASE_BATCH" help:"Most items of one lease or reserve. Default: ${default}." placeholder:"N" validate:"gte=1,lte=100000"`
	QueratorMaxCompleteBatch int   `default:"1000" env:"LEASEHOLD_QUERATOR_MAX_COMPLETE_BATCH" help:"Most items of one complete, retry or defer. Default: ${default}." placeholder:"N" validate:"gte=1,lte=100000"`

	// QueratorRootKey is read from the environment alone (EnvQueratorRootKey).
	QueratorRootKey string `kong:"-"`
}

// defaultQueratorConfig is what no flag, environment and file mean.
func defaultQueratorConfig() QueratorConfig {
	return QueratorConfig{
		QueratorMaxProduceBytes: querator.DefaultMaxProduceBytes, QueratorMaxProduceBatch: querator.DefaultMaxBatch,
		QueratorMaxLeaseBatch: querator.DefaultMaxBatch, QueratorMaxCompleteBatch: querator.DefaultMaxBatch,
	}
}

// queratorOptions are the adapter's options; the configuration was checked.
func (c *QueratorConfig) queratorOptions() querator.Options {
	return querator.Options{
		RequireKey: c.QueratorRequireKey || c.QueratorRootKey != "", RootKey: c.QueratorRootKey,
		MaxProduceBytes: c.QueratorMaxProduceBytes, MaxProduceBatch: c.QueratorMaxProduceBatch,
		MaxLeaseBatch: c.QueratorMaxLeaseBatch, MaxCompleteBatch: c.QueratorMaxCompleteBatch,
	}
}

// queratorGuarded reports whether a stranger can do nothing on the listeners,
// the making of the first key included.
func (c *QueratorConfig) queratorGuarded() bool { return c.QueratorRootKey != "" }

// checkQuerator looks at what the tags cannot say.
func (c *QueratorConfig) checkQuerator() []error {
	k := c.QueratorRootKey
	if k != "" && (len(k) < 24 || len(k) > 256 || strings.ContainsFunc(k, func(r rune) bool { return r <= ' ' || r > '~' })) {
		return []error{errors.New(EnvQueratorRootKey + ": a key must be 24 to 256 visible ASCII characters without spaces")}
	}
	return nil
}
