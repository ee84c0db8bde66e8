package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold/leasehold/adapters/cfqueues"
	"github.com/leasehold/leasehold/core"
)

// EnvCfqueuesToken names the variable with a token that may do everything
// through the Cloudflare Queues listener, for servers that must have one
// before they first start. There is no flag for it, since every user of a
// machine sees flags.
const EnvCfqueuesToken = "LEASEHOLD_CFQUEUES_TOKEN" //nolint:gosec // a name

// CfqueuesConfig is what "leasehold serve" can be told about the Cloudflare
// Queues listener. The limits' defaults are the vendor's.
type CfqueuesConfig struct {
	CfqueuesAccount          string `env:"LEASEHOLD_CFQUEUES_ACCOUNT" help:"Id of the account. Where tokens are asked for, paths of other accounts are refused. Default: an id of the server's own to show, and any in paths." placeholder:"ID" validate:"omitempty,max=32,excludesall=/?#"`
	CfqueuesJsonBodyEncoding string `default:"base64" env:"LEASEHOLD_CFQUEUES_JSON_BODY_ENCODING" help:"How pulls show JSON bodies: base64 as documented, or plain as text. A queue's setting json_body_encoding comes before it. Default: ${default}." placeholder:"NAME" validate:"oneof=base64 plain"` //nolint:revive // flagName and kong read the name
	CfqueuesStrictJsonPush   bool   `env:"LEASEHOLD_CFQUEUES_STRICT_JSON_PUSH" help:"Refuse JSON bodies that are neither an object nor an array, as the vendor does."`                                                                                                                                    //nolint:revive // flagName and kong read the name
	CfqueuesImplicitHttpPull bool   `env:"LEASEHOLD_CFQUEUES_IMPLICIT_HTTP_PULL" help:"Let queues without a consumer be pulled from, with the default settings."`                                                                                                                                         //nolint:revive // flagName and kong read the name

	CfqueuesInertWorkerConsumers bool `env:"LEASEHOLD_CFQUEUES_INERT_WORKER_CONSUMERS" help:"Store consumers of type worker, which never run, instead of refusing them."`
	CfqueuesInertSubscriptions   bool `env:"LEASEHOLD_CFQUEUES_INERT_SUBSCRIPTIONS" help:"Store event subscriptions, to which no event comes, instead of refusing them."`
	CfqueuesLenient              bool `env:"LEASEHOLD_CFQUEUES_LENIENT" help:"For tests written against a mock: take pushes without a body, empty batches, purges without confirmation, workers and subscriptions."`

	CfqueuesMessagesPerSecond      int `default:"0" env:"LEASEHOLD_CFQUEUES_MESSAGES_PER_SECOND" help:"Most messages pushed to, and pulled from, one queue in a second; the vendor's is 5000, 0 is no limit. Default: ${default}." placeholder:"N" validate:"gte=0"`
	CfqueuesRequestsPerFiveMinutes int `default:"0" env:"LEASEHOLD_CFQUEUES_REQUESTS_PER_FIVE_MINUTES" help:"Most requests of one token that are not about messages; the vendor's is 1200, 0 is no limit. Default: ${default}." placeholder:"N" validate:"gte=0"`

	CfqueuesMaxRequestBytes      int64         `default:"8388608" env:"LEASEHOLD_CFQUEUES_MAX_REQUEST_BYTES" help:"Largest request body. Default: ${default}." placeholder:"BYTES" validate:"gte=1024"`
	CfqueuesMaxMessageBytes      int64         `default:"128000" env:"LEASEHOLD_CFQUEUES_MAX_MESSAGE_BYTES" help:"Largest message. Default: ${default}." placeholder:"BYTES" validate:"gte=1"`
	CfqueuesMaxBatchBytes        int64         `default:"256000" env:"LEASEHOLD_CFQUEUES_MAX_BATCH_BYTES" help:"Largest batch, over all its messages. Default: ${default}." placeholder:"BYTES" validate:"gte=1"`
	CfqueuesMaxBatchMessages     int           `default:"100" env:"LEASEHOLD_CFQUEUES_MAX_BATCH_MESSAGES" help:"Most messages of a batch. Default: ${default}." placeholder:"N" validate:"gte=1,lte=100000"`
	CfqueuesMaxPullMessages      int           `default:"100" env:"LEASEHOLD_CFQUEUES_MAX_PULL_MESSAGES" help:"Most messages of a pull. Default: ${default}." placeholder:"N" validate:"gte=1,lte=100000"`
	CfqueuesMaxPullBytes         int64         `default:"16000000" env:"LEASEHOLD_CFQUEUES_MAX_PULL_BYTES" help:"Most payload bytes of a pull; one message always fits. Default: ${default}." placeholder:"BYTES" validate:"gte=1"`
	CfqueuesMaxRetries           int           `default:"100" env:"LEASEHOLD_CFQUEUES_MAX_RETRIES" help:"Highest max_retries of a consumer. Default: ${default}." placeholder:"N" validate:"gte=1,lte=1000000000"`
	CfqueuesMaxVisibilityTimeout time.Duration `default:"12h" env:"LEASEHOLD_CFQUEUES_MAX_VISIBILITY_TIMEOUT" help:"Longest lease. Default: ${default}." placeholder:"TIME" validate:"gte=1s"`
	CfqueuesMaxDelay             time.Duration `default:"24h" env:"LEASEHOLD_CFQUEUES_MAX_DELAY" help:"Longest delay of a push, a retry or a queue. Default: ${default}." placeholder:"TIME" validate:"gte=1s"`
	CfqueuesMinRetention         time.Duration `default:"1m" env:"LEASEHOLD_CFQUEUES_MIN_RETENTION" help:"Shortest retention of a queue. Default: ${default}." placeholder:"TIME" validate:"gte=1s"`
	CfqueuesMaxRetention         time.Duration `default:"336h" env:"LEASEHOLD_CFQUEUES_MAX_RETENTION" help:"Longest retention of a queue. Default: ${default}." placeholder:"TIME" validate:"gte=1s,gtefield=CfqueuesMinRetention"`
	CfqueuesMaxQueues            int           `default:"10000" env:"LEASEHOLD_CFQUEUES_MAX_QUEUES" help:"Most queues of the server, counted when one is made here. Default: ${default}." placeholder:"N" validate:"gte=1"`
	CfqueuesMaxBacklogBytes      int64         `default:"25000000000" env:"LEASEHOLD_CFQUEUES_MAX_BACKLOG_BYTES" help:"Largest backlog of a queue. Default: ${default}." placeholder:"BYTES" validate:"gte=1"`
	CfqueuesMaxWait              time.Duration `default:"20s" env:"LEASEHOLD_CFQUEUES_MAX_WAIT" help:"Longest wait of a pull that asks to wait. Default: ${default}." placeholder:"TIME" validate:"gte=1ms,lte=1h"`

	// CfqueuesToken is read from the environment alone (EnvCfqueuesToken).
	CfqueuesToken string `kong:"-"`
}

// defaultCfqueuesConfig is what no flag, environment and file mean.
func defaultCfqueuesConfig() CfqueuesConfig {
	return CfqueuesConfig{
		CfqueuesJsonBodyEncoding: "base64",
		CfqueuesMaxRequestBytes:  8 << 20, CfqueuesMaxMessageBytes: 128_000, CfqueuesMaxBatchBytes: 256_000,
		CfqueuesMaxBatchMessages: 100, CfqueuesMaxPullMessages: 100, CfqueuesMaxPullBytes: 16_000_000, CfqueuesMaxRetries: 100,
		CfqueuesMaxVisibilityTimeout: 12 * time.Hour, CfqueuesMaxDelay: 24 * time.Hour,
		CfqueuesMinRetention: time.Minute, CfqueuesMaxRetention: 14 * 24 * time.Hour,
		CfqueuesMaxQueues: 10_000, CfqueuesMaxBacklogBytes: 25_000_000_000, CfqueuesMaxWait: 20 * time.Second,
	}
}

// cfqueuesOptions are the adapter's options; the configuration was checked.
func (c *CfqueuesConfig) cfqueuesOptions() cfqueues.Options {
	return cfqueues.Options{
		Account:         c.CfqueuesAccount,
		PlainJSONBodies: c.CfqueuesJsonBodyEncoding == "plain", StrictJSONPush: c.CfqueuesStrictJsonPush,
		ImplicitHTTPPull: c.CfqueuesImplicitHttpPull, InertWorkerConsumers: c.CfqueuesInertWorkerConsumers,
		InertSubscriptions: c.CfqueuesInertSubscriptions, Lenient: c.CfqueuesLenient,
		Rates: cfqueues.Rates{MessagesPerSecond: c.CfqueuesMessagesPerSecond, RequestsPerFiveMinutes: c.CfqueuesRequestsPerFiveMinutes},
		Limits: cfqueues.Limits{
			MaxRequestBytes: c.CfqueuesMaxRequestBytes, MaxMessageBytes: c.CfqueuesMaxMessageBytes,
			MaxBatchBytes: c.CfqueuesMaxBatchBytes, MaxBatchMessages: c.CfqueuesMaxBatchMessages,
			MaxPullMessages: c.CfqueuesMaxPullMessages, MaxPullBytes: c.CfqueuesMaxPullBytes, MaxRetries: c.CfqueuesMaxRetries,
			MaxVisibilityTimeout: c.CfqueuesMaxVisibilityTimeout, MaxDelay: c.CfqueuesMaxDelay,
			MinRetention: c.CfqueuesMinRetention, MaxRetention: c.CfqueuesMaxRetention,
			MaxQueues: c.CfqueuesMaxQueues, MaxBacklogBytes: c.CfqueuesMaxBacklogBytes, MaxWait: c.CfqueuesMaxWait,
		},
	}
}

// cfqueuesOptions are the adapter's options with what the running server adds.
func (a *App) cfqueuesOptions() cfqueues.Options {
	o := a.cfg.cfqueuesOptions()
	o.Tokens, o.Logger, o.Now, o.Observer = a.tokens, a.log, time.Now, a.metrics
	return o
}

// checkCfqueues looks at what the tags cannot say.
func (c *CfqueuesConfig) checkCfqueues() []error {
	if t := c.CfqueuesToken; t != "" && (len(t) < 24 || len(t) > 256 || strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r > '~' })) {
		return []error{errors.New(EnvCfqueuesToken + ": a token must be 24 to 256 visible ASCII characters without spaces")}
	}
	return nil
}

// openTokens reads the tokens of the store, and refuses a listener that other
// machines can reach where nobody would be asked for one. This is not part of
// Config.Check since the tokens are in the store.
func (a *App) openTokens(ctx context.Context, engine *core.Engine) error {
	a.tokens = cfqueues.NewTokens(engine, a.cfg.CfqueuesToken)
	required, err := a.tokens.Required(ctx)
	if err != nil {
		return fmt.Errorf("read tokens: %w", err)
	}
	if addr := a.cfg.CfqueuesAddr; addr != Off && !a.cfg.Insecure && !required && !loopback(addr) {
		return fmt.Errorf("--cfqueues-addr: %s is not a loopback address: make a token first (leasehold token create, on a loopback address), set %s, or give --insecure",
			addr, EnvCfqueuesToken)
	}
	return nil
}
