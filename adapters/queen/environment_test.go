package queen_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
)

func environment(pairs ...string) queen.Environment {
	values := map[string]string{}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
	}
	return queen.FromEnvironment(func(name string) (string, bool) { v, ok := values[name]; return v, ok })
}

func TestEnvironmentOfTheOriginal(t *testing.T) {
	assert.Equal(t, queen.Environment{}, environment(), "nothing set, nothing said")
	assert.Equal(t, queen.Environment{}, environment("PORT=", "HOST= ", "DEFAULT_SUBSCRIPTION_MODE="), "empty is not set")

	e := environment("PORT=7000", "HOST=127.0.0.1", "POP_DEFAULT_TIMEOUT_MS=1000", "DEFAULT_TIMEOUT=2000", "DEFAULT_BATCH_SIZE=50",
		"DEFAULT_SUBSCRIPTION_MODE=new-only", "QUEEN_MAX_BODY_BYTES=1048576", "RETENTION_INTERVAL=300000", "EVICTION_INTERVAL=5000", "LOG_LEVEL=TRACE")
	assert.Equal(t, "127.0.0.1:7000", e.Addr)
	assert.Equal(t, queen.Options{Timeout: 2 * time.Second, Batch: 50, SubscribeNew: true, MaxBodyBytes: 1 << 20}, e.Options, "DEFAULT_TIMEOUT goes first")
	assert.Equal(t, 5*time.Second, e.SweepEvery, "the shorter of two")
	assert.Equal(t, "debug", e.LogLevel)
	assert.Len(t, e.Applied, 10)
	assert.Empty(t, append(append(e.Ignored, e.Invalid...), e.Unsafe...))

	e = environment("PARTITION_CLEANUP_DAYS=7", "METRICS_RETENTION_DAYS=10", "FILE_BUFFER_DIR=/var/lib/queen")
	assert.Equal(t, []any{7 * 24 * time.Hour, 240 * time.Hour, "/var/lib/queen"}, []any{e.PartitionIdle, e.MetricsRetention, e.SpoolDir})
	assert.Negative(t, environment("PARTITION_CLEANUP_DAYS=0").PartitionIdle, "never")
	assert.Equal(t, []string{"METRICS_RETENTION_DAYS", "PARTITION_CLEANUP_DAYS"}, environment("PARTITION_CLEANUP_DAYS=-1", "METRICS_RETENTION_DAYS=0").Invalid)

	assert.Equal(t, "0.0.0.0:7000", environment("PORT=7000").Addr)
	assert.Equal(t, "[::1]:6632", environment("HOST=::1").Addr)
	assert.False(t, environment("DEFAULT_SUBSCRIPTION_MODE=all").Options.SubscribeNew)
}

func TestEnvironmentThatCannotBeRead(t *testing.T) {
	e := environment("PORT=70000", "DEFAULT_TIMEOUT=soon", "DEFAULT_BATCH_SIZE=0", "DEFAULT_SUBSCRIPTION_MODE=never", "LOG_LEVEL=loud", "QUEEN_MAX_BODY_BYTES=-1", "RETENTION_INTERVAL=5s")
	assert.Equal(t, []string{"DEFAULT_BATCH_SIZE", "DEFAULT_SUBSCRIPTION_MODE", "DEFAULT_TIMEOUT", "LOG_LEVEL", "PORT", "QUEEN_MAX_BODY_BYTES", "RETENTION_INTERVAL"}, e.Invalid)
	assert.Empty(t, e.Applied)
	assert.Zero(t, e.Options)
	assert.Empty(t, e.Addr)
}

func TestEnvironmentWithoutCounterpart(t *testing.T) {
	e := environment("DB_POOL_SIZE=150", "POP_WAIT_MAX_INTERVAL_MS=1000", "NUM_WORKERS=10", "JWT_ENABLED=false", "JWT_SECRET=s")
	assert.Equal(t, []string{"DB_POOL_SIZE", "JWT_ENABLED", "JWT_SECRET", "NUM_WORKERS", "POP_WAIT_MAX_INTERVAL_MS"}, e.Ignored)
	assert.Zero(t, e.JWT, "what is switched off says nothing")
}

func TestEnvironmentOfTokensAndKeys(t *testing.T) {
	e := environment("JWT_ENABLED=true", "JWT_ALGORITHM=auto", "JWT_SECRET=s", "JWT_PUBLIC_KEY=/etc/key.pem", "JWT_JWKS_URL=https://i/k", "JWT_ISSUER=i",
		"JWT_AUDIENCE=a", "JWT_CLOCK_SKEW=5", "JWT_SKIP_PATHS=/health, /x,", "JWT_JWKS_REFRESH_INTERVAL=60", "JWT_JWKS_TIMEOUT_MS=500", "JWT_ROLES_CLAIM=r",
		"JWT_ROLES_ARRAY_CLAIM=rs", "JWT_ROLE_ADMIN=A", "JWT_ROLE_READ_WRITE=RW", "JWT_ROLE_READ_ONLY=RO", "JWT_ROLE_WRITE_ONLY=WO")
	assert.Equal(t, queen.EnvironmentJWT{
		Enabled: true, Algorithm: "auto", Secret: "s", PublicKey: "/etc/key.pem", JWKSURL: "https://i/k", Issuer: "i", Audience: "a",
		ClockSkew: 5 * time.Second, SkipPaths: []string{"/health", "/x"}, JWKSRefresh: time.Minute, JWKSTimeout: 500 * time.Millisecond,
		Roles: queen.Roles{Claim: "r", ArrayClaim: "rs", Admin: "A", ReadWrite: "RW", ReadOnly: "RO", WriteOnly: "WO"},
	}, e.JWT)
	assert.Len(t, e.Applied, 17)
	assert.Empty(t, append(append(e.Ignored, e.Invalid...), e.Unsafe...))
	assert.Negative(t, environment("JWT_ENABLED=1", "JWT_CLOCK_SKEW=0").JWT.ClockSkew, "none at all")
	assert.Equal(t, []string{"JWT_CLOCK_SKEW", "JWT_SKIP_PATHS"}, environment("JWT_ENABLED=on", "JWT_CLOCK_SKEW=-1", "JWT_SKIP_PATHS=,").Invalid)

	key := strings.Repeat("0f", 32)
	assert.Equal(t, key, environment("QUEEN_ENCRYPTION_KEY="+key).EncryptionKey)
	for _, unreadable := range []string{"JWT_ENABLED=maybe", "QUEEN_ENCRYPTION_KEY=00", "QUEEN_ENCRYPTION_KEY=" + key + "00", "QUEEN_ENCRYPTION_KEY=" + key[2:] + "xx"} {
		name, _, _ := strings.Cut(unreadable, "=")
		assert.Equal(t, []string{name}, environment(unreadable).Unsafe, "a protection that is asked for is not passed over")
	}
}

func TestEnvironmentOfPostgres(t *testing.T) {
	assert.Equal(t, "postgres://postgres:postgres@db:5432/postgres?sslmode=disable", environment("PG_HOST=db").PostgresURL)
	e := environment("PG_HOST=::1", "PG_PORT=6000", "PG_DB=q/1", "PG_USER=u@x", "PG_PASSWORD=p:/?#", "PG_USE_SSL=true")
	assert.Equal(t, "postgres://u%40x:p%3A%2F%3F%23@[::1]:6000/q/1?sslmode=verify-full", e.PostgresURL)
	assert.Equal(t, []string{"PG_DB", "PG_HOST", "PG_PASSWORD", "PG_PORT", "PG_USER", "PG_USE_SSL"}, e.Applied)
	assert.True(t, strings.HasSuffix(environment("PG_USE_SSL=true", "PG_SSL_REJECT_UNAUTHORIZED=false").PostgresURL, "sslmode=require"))
}

// TestEnvironmentKnowsTheProtocolsNames reads every name of protocol §13 and expects each to land in one list.
func TestEnvironmentKnowsTheProtocolsNames(t *testing.T) {
	text, err := os.ReadFile("testdata/environment.txt")
	require.NoError(t, err)
	for _, name := range strings.Fields(string(text)) {
		e := environment(name + "=1")
		assert.Len(t, append(append(append(e.Applied, e.Ignored...), e.Invalid...), e.Unsafe...), 1, name)
	}
}
