package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/leasehold/leasehold/adapters/queen"
)

// EnvQueenJwtSecret names the variable with the secret of HS tokens. There is
// no flag for it, since every user of a machine sees flags.
const EnvQueenJwtSecret = "LEASEHOLD_QUEEN_JWT_SECRET"

// QueenConfig is what "leasehold serve" can be told about the Queen listener.
type QueenConfig struct {
	QueenTimeout          time.Duration `default:"30s" env:"LEASEHOLD_QUEEN_TIMEOUT" help:"How long a waiting pop that names no timeout waits. Default: ${default}." placeholder:"TIME" validate:"gt=0,lte=24h"`
	QueenBatch            int           `default:"200" env:"LEASEHOLD_QUEEN_BATCH" help:"How many messages a pop gets that names no batch. Default: ${default}." placeholder:"N" validate:"gte=1,lte=1048576"`
	QueenSubscriptionMode string        `default:"all" env:"LEASEHOLD_QUEEN_SUBSCRIPTION_MODE" help:"Where a new consumer group starts that names no mode: all or new. Default: ${default}." placeholder:"MODE" validate:"oneof=all new"`
	QueenMaxBodyBytes     int64         `default:"67108864" env:"LEASEHOLD_QUEEN_MAX_BODY_BYTES" help:"Largest request body. Default: ${default}." placeholder:"BYTES" validate:"gte=1024"`
	QueenDeliveryAttempt  bool          `env:"LEASEHOLD_QUEEN_DELIVERY_ATTEMPT" help:"Add deliveryAttempt to every popped message."`
	QueenReplaceOptions   bool          `env:"LEASEHOLD_QUEEN_REPLACE_OPTIONS" help:"A configure call that names no mode resets the options that it does not name, as before release 1.6."`
	SweepEvery            time.Duration `default:"5s" env:"LEASEHOLD_SWEEP_EVERY" help:"Time between sweeps for retention. Default: ${default}." placeholder:"TIME" validate:"gte=10ms,lte=24h"`
	QueenPartitionDays    int           `default:"30" env:"LEASEHOLD_QUEEN_PARTITION_DAYS" help:"After how many days without a message and without use a partition is removed; 0 is never. Default: ${default}." placeholder:"DAYS" validate:"gte=0,lte=36500"`

	QueenJwtAlgorithm       string        `default:"auto" env:"LEASEHOLD_QUEEN_JWT_ALGORITHM" help:"The only algorithm of tokens, or auto for every one that there is a key for. Default: ${default}." placeholder:"NAME"`
	QueenJwtPublicKey       string        `env:"LEASEHOLD_QUEEN_JWT_PUBLIC_KEY" help:"PEM file (or PEM text) with the RSA or Ed25519 key that checks tokens. A secret is read from LEASEHOLD_QUEEN_JWT_SECRET." placeholder:"FILE"`
	QueenJwtJwksUrl         string        `env:"LEASEHOLD_QUEEN_JWT_JWKS_URL" help:"URL of the key set that checks tokens." placeholder:"URL"` //nolint:revive // flagName and kong read the name
	QueenJwtJwksRefresh     time.Duration `default:"1h" env:"LEASEHOLD_QUEEN_JWT_JWKS_REFRESH" help:"Age at which the key set is fetched again. Default: ${default}." placeholder:"TIME" validate:"gte=1s"`
	QueenJwtJwksTimeout     time.Duration `default:"5s" env:"LEASEHOLD_QUEEN_JWT_JWKS_TIMEOUT" help:"How long a fetch of the key set may take. Default: ${default}." placeholder:"TIME" validate:"gt=0"`
	QueenJwtIssuer          string        `env:"LEASEHOLD_QUEEN_JWT_ISSUER" help:"What a token's iss must be. Default: anything." placeholder:"TEXT"`
	QueenJwtAudience        string        `env:"LEASEHOLD_QUEEN_JWT_AUDIENCE" help:"What a token's aud must have. Default: anything." placeholder:"TEXT"`
	QueenJwtClockSkew       time.Duration `default:"30s" env:"LEASEHOLD_QUEEN_JWT_CLOCK_SKEW" help:"How far clocks may differ. Default: ${default}." placeholder:"TIME" validate:"gte=0"`
	QueenJwtSkipPaths       []string      `default:"/health,/metrics,/metrics/prometheus,/" env:"LEASEHOLD_QUEEN_JWT_SKIP_PATHS" help:"Paths that need no token. Default: ${default}." placeholder:"PATH,…" validate:"dive,startswith=/"`
	QueenJwtRolesClaim      string        `default:"role" env:"LEASEHOLD_QUEEN_JWT_ROLES_CLAIM" help:"The claim with one role. Default: ${default}." placeholder:"NAME" validate:"required"`
	QueenJwtRolesArrayClaim string        `default:"roles" env:"LEASEHOLD_QUEEN_JWT_ROLES_ARRAY_CLAIM" help:"The claim with several roles. Default: ${default}." placeholder:"NAME" validate:"required"`
	QueenJwtRoleAdmin       string        `default:"admin" env:"LEASEHOLD_QUEEN_JWT_ROLE_ADMIN" help:"The role that may do everything. Default: ${default}." placeholder:"NAME" validate:"required"`
	QueenJwtRoleReadWrite   string        `default:"read-write" env:"LEASEHOLD_QUEEN_JWT_ROLE_READ_WRITE" help:"The role that may push and consume. Default: ${default}." placeholder:"NAME" validate:"required"`
	QueenJwtRoleReadOnly    string        `default:"read-only" env:"LEASEHOLD_QUEEN_JWT_ROLE_READ_ONLY" help:"The role that may look. Default: ${default}." placeholder:"NAME" validate:"required"`
	QueenJwtRoleWriteOnly   string        `default:"write-only" env:"LEASEHOLD_QUEEN_JWT_ROLE_WRITE_ONLY" help:"The role that may only push. Default: ${default}." placeholder:"NAME" validate:"required"`

	// QueenJwtSecret is read from the environment alone (EnvQueenJwtSecret).
	QueenJwtSecret string `kong:"-"`
	// QueenJwtRequired is set where the original's environment asks for
	// tokens: there must be a key then.
	QueenJwtRequired bool `kong:"-"`
	// Originals are the names of the original server that were found.
	Originals OriginalNames `kong:"-"`
}

// defaultQueenConfig is what no flag, environment and file mean.
func defaultQueenConfig() QueenConfig {
	return QueenConfig{
		QueenTimeout: queen.DefaultTimeout, QueenBatch: queen.DefaultBatch, QueenSubscriptionMode: "all",
		QueenMaxBodyBytes: queen.DefaultMaxBodyBytes, SweepEvery: 5 * time.Second, QueenPartitionDays: 30,
		QueenJwtAlgorithm: "auto", QueenJwtJwksRefresh: queen.DefaultJWKSRefresh, QueenJwtJwksTimeout: queen.DefaultJWKSTimeout,
		QueenJwtClockSkew: queen.DefaultClockSkew, QueenJwtSkipPaths: queen.DefaultSkipPaths(),
		QueenJwtRolesClaim: "role", QueenJwtRolesArrayClaim: "roles", QueenJwtRoleAdmin: "admin",
		QueenJwtRoleReadWrite: "read-write", QueenJwtRoleReadOnly: "read-only", QueenJwtRoleWriteOnly: "write-only",
	}
}

// queenOptions are the adapter's options; the configuration was checked.
func (c *Config) queenOptions() queen.Options {
	return queen.Options{
		Version: version(), MaxBodyBytes: c.QueenMaxBodyBytes, Timeout: c.QueenTimeout, Batch: c.QueenBatch,
		SubscribeNew: c.QueenSubscriptionMode == "new", DeliveryAttempt: c.QueenDeliveryAttempt,
		ReplaceOptions: c.QueenReplaceOptions, Auth: c.queenAuth(), CanEncrypt: c.canEncrypt(),
	}
}

// partitionIdle is core.Options.PartitionIdle.
func (c *Config) partitionIdle() time.Duration {
	if c.QueenPartitionDays == 0 {
		return -1
	}
	return time.Duration(c.QueenPartitionDays) * 24 * time.Hour
}

// queenAuth says which tokens are let in.
func (c *Config) queenAuth() queen.Auth {
	skew := c.QueenJwtClockSkew
	if skew == 0 {
		skew = -1
	}
	return queen.Auth{
		Secret: []byte(c.QueenJwtSecret), PublicKey: []byte(c.QueenJwtPublicKey), Algorithm: c.QueenJwtAlgorithm,
		JWKS:   queen.JWKS{URL: c.QueenJwtJwksUrl, Refresh: c.QueenJwtJwksRefresh, Timeout: c.QueenJwtJwksTimeout},
		Issuer: c.QueenJwtIssuer, Audience: c.QueenJwtAudience, ClockSkew: skew, SkipPaths: c.QueenJwtSkipPaths,
		Roles: queen.Roles{
			Claim: c.QueenJwtRolesClaim, ArrayClaim: c.QueenJwtRolesArrayClaim, Admin: c.QueenJwtRoleAdmin,
			ReadWrite: c.QueenJwtRoleReadWrite, ReadOnly: c.QueenJwtRoleReadOnly, WriteOnly: c.QueenJwtRoleWriteOnly,
		},
	}
}

// readPublicKey puts the key in the place of its file's name.
func (c *Config) readPublicKey() error {
	key := strings.ReplaceAll(c.QueenJwtPublicKey, `\n`, "\n")
	if key == "" || strings.Contains(key, "-----BEGIN") {
		c.QueenJwtPublicKey = key
		return nil
	}
	text, err := os.ReadFile(c.QueenJwtPublicKey)
	if err != nil {
		return fmt.Errorf("--queen-jwt-public-key: %w", err)
	}
	c.QueenJwtPublicKey = string(text)
	return nil
}

// checkQueen looks for settings that fit together badly.
func (c *Config) checkQueen() []error {
	if err := c.readPublicKey(); err != nil {
		return []error{err}
	}
	auth := c.queenAuth()
	switch {
	case !auth.Enabled() && c.QueenJwtRequired:
		return []error{errors.New("JWT_ENABLED is set, but no secret, public key or key set is: set JWT_SECRET, JWT_PUBLIC_KEY or JWT_JWKS_URL")}
	case !auth.Enabled():
		return nil
	}
	if err := auth.Check(); err != nil {
		return []error{fmt.Errorf("--queen-jwt: %w", err)}
	}
	return nil
}

// originals are the original server's own environment names, below every
// other source of settings.
type originals struct {
	env    queen.Environment
	file   *fileResolver
	values map[string]string
	// used are the flags that took their value from here.
	used []string
}

// flagsOfOriginals say which flag a name of the original stands for.
var flagsOfOriginals = map[string]string{
	"PORT": "queen-addr", "HOST": "queen-addr", "DEFAULT_TIMEOUT": "queen-timeout", "POP_DEFAULT_TIMEOUT_MS": "queen-timeout",
	"DEFAULT_BATCH_SIZE": "queen-batch", "DEFAULT_SUBSCRIPTION_MODE": "queen-subscription-mode", "QUEEN_MAX_BODY_BYTES": "queen-max-body-bytes",
	"RETENTION_INTERVAL": "sweep-every", "EVICTION_INTERVAL": "sweep-every", "LOG_LEVEL": "log-level",
	"PARTITION_CLEANUP_DAYS": "queen-partition-days", "METRICS_RETENTION_DAYS": "queen-metrics-retention", "FILE_BUFFER_DIR": "queen-spool-dir",
	"PG_HOST": "store", "PG_PORT": "store", "PG_DB": "store", "PG_USER": "store", "PG_PASSWORD": "store", "PG_USE_SSL": "store",
	"PG_SSL_REJECT_UNAUTHORIZED": "store",
	"JWT_ALGORITHM":              "queen-jwt-algorithm", "JWT_PUBLIC_KEY": "queen-jwt-public-key", "JWT_JWKS_URL": "queen-jwt-jwks-url",
	"JWT_ISSUER": "queen-jwt-issuer", "JWT_AUDIENCE": "queen-jwt-audience", "JWT_CLOCK_SKEW": "queen-jwt-clock-skew",
	"JWT_SKIP_PATHS": "queen-jwt-skip-paths", "JWT_JWKS_REFRESH_INTERVAL": "queen-jwt-jwks-refresh", "JWT_JWKS_TIMEOUT_MS": "queen-jwt-jwks-timeout",
	"JWT_ROLES_CLAIM": "queen-jwt-roles-claim", "JWT_ROLES_ARRAY_CLAIM": "queen-jwt-roles-array-claim", "JWT_ROLE_ADMIN": "queen-jwt-role-admin",
	"JWT_ROLE_READ_WRITE": "queen-jwt-role-read-write", "JWT_ROLE_READ_ONLY": "queen-jwt-role-read-only", "JWT_ROLE_WRITE_ONLY": "queen-jwt-role-write-only",
}

// readOriginals reads the original's names.
func readOriginals(file *fileResolver) *originals {
	e := queen.FromEnvironment(os.LookupEnv)
	o := &originals{env: e, file: file, values: map[string]string{
		"queen-addr": e.Addr, "log-level": e.LogLevel, "store": e.PostgresURL, "queen-timeout": duration(e.Options.Timeout),
		"sweep-every": duration(e.SweepEvery), "queen-batch": number(int64(e.Options.Batch)), "queen-max-body-bytes": number(e.Options.MaxBodyBytes),
		"queen-jwt-algorithm": e.JWT.Algorithm, "queen-jwt-public-key": e.JWT.PublicKey, "queen-jwt-jwks-url": e.JWT.JWKSURL,
		"queen-jwt-issuer": e.JWT.Issuer, "queen-jwt-audience": e.JWT.Audience, "queen-jwt-skip-paths": strings.Join(e.JWT.SkipPaths, ","),
		"queen-jwt-jwks-refresh": duration(e.JWT.JWKSRefresh), "queen-jwt-jwks-timeout": duration(e.JWT.JWKSTimeout),
		"queen-jwt-clock-skew":  duration(e.JWT.ClockSkew),
		"queen-jwt-roles-claim": e.JWT.Roles.Claim, "queen-jwt-roles-array-claim": e.JWT.Roles.ArrayClaim,
		"queen-jwt-role-admin": e.JWT.Roles.Admin, "queen-jwt-role-read-write": e.JWT.Roles.ReadWrite,
		"queen-jwt-role-read-only": e.JWT.Roles.ReadOnly, "queen-jwt-role-write-only": e.JWT.Roles.WriteOnly,
	}}
	o.values["queen-metrics-retention"], o.values["queen-spool-dir"] = duration(e.MetricsRetention), e.SpoolDir
	if slices.Contains(e.Applied, "PARTITION_CLEANUP_DAYS") {
		o.values["queen-partition-days"] = strconv.Itoa(int(max(e.PartitionIdle, 0) / (24 * time.Hour)))
	}
	if slices.Contains(e.Applied, "DEFAULT_SUBSCRIPTION_MODE") {
		o.values["queen-subscription-mode"] = map[bool]string{true: "new", false: "all"}[e.Options.SubscribeNew]
	}
	return o
}

// duration writes a time as a flag has it; none is "", and the negative one
// that stands for zero is.
func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return max(d, 0).String()
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// Validate implements kong.Resolver.
func (o *originals) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (o *originals) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	value := o.values[flag.Name]
	_, inFile := o.file.values[flag.Name]
	if value == "" || inFile || slices.ContainsFunc(flag.Envs, func(e string) bool { _, set := os.LookupEnv(e); return set }) {
		return nil, nil
	}
	o.used = append(o.used, flag.Name)
	return value, nil
}

// secrets takes what has no flag, and refuses what must not be passed over.
func (o *originals) secrets(c *Config) error {
	if len(o.env.Unsafe) > 0 {
		return fmt.Errorf("%s: the value cannot be read, and a server that passed over it would be less safe than it is meant to be",
			strings.Join(o.env.Unsafe, ", "))
	}
	c.QueenJwtRequired = o.env.JWT.Enabled
	if c.QueenJwtSecret = os.Getenv(EnvQueenJwtSecret); c.QueenJwtSecret == "" && o.env.JWT.Secret != "" {
		c.QueenJwtSecret = o.env.JWT.Secret
		o.used = append(o.used, "JWT_SECRET")
	}
	if c.EncryptionKey == "" && o.env.EncryptionKey != "" {
		c.EncryptionKey = o.env.EncryptionKey
		o.used = append(o.used, "QUEEN_ENCRYPTION_KEY")
	}
	c.Originals = o.report()
	return nil
}

// names are the original's names that took effect.
func (o *originals) names() []string {
	var out []string
	for _, name := range o.env.Applied {
		flag, ok := flagsOfOriginals[name]
		switch {
		case ok && slices.Contains(o.used, flag), name == "JWT_ENABLED", slices.Contains(o.used, name):
			out = append(out, name)
		}
	}
	return out
}

// report is what Main logs.
func (o *originals) report() OriginalNames {
	return OriginalNames{Applied: o.names(), Ignored: o.env.Ignored, Invalid: o.env.Invalid}
}

// OriginalNames are the original server's environment names that were found.
type OriginalNames struct {
	// Applied are in effect, Ignored have no counterpart, Invalid have values
	// that cannot be read.
	Applied, Ignored, Invalid []string
}

// log says each once, without the values: some are secret.
func (o *OriginalNames) log(ctx context.Context, logger *slog.Logger) {
	for _, name := range o.Applied {
		logger.InfoContext(ctx, "setting taken from the environment of the original server", "name", name)
	}
	if len(o.Ignored) > 0 {
		logger.InfoContext(ctx, "environment names of the original server have no counterpart and are ignored", "names", o.Ignored)
	}
	if len(o.Invalid) > 0 {
		logger.WarnContext(ctx, "environment names of the original server have values that cannot be read and are ignored", "names", o.Invalid)
	}
}
