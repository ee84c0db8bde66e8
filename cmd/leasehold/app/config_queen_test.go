package app

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// setenv sets several variables, each as NAME=value.
func setenv(t *testing.T, pairs ...string) {
	t.Helper()
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
}

func TestOriginalNamesStandBelowEverythingElse(t *testing.T) {
	setenv(t, "HOST=127.0.0.1", "PORT=7001", "DEFAULT_TIMEOUT=5000", "DEFAULT_BATCH_SIZE=7", "DEFAULT_SUBSCRIPTION_MODE=new",
		"QUEEN_MAX_BODY_BYTES=2048", "RETENTION_INTERVAL=2000", "LOG_LEVEL=warn", "PG_HOST=db", "PG_PASSWORD=hush",
		"DB_POOL_SIZE=3", "EVICTION_INTERVAL=often")
	cfg, err := parsed("serve")
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1:7001", cfg.QueenAddr)
	assert.Equal(t, 5*time.Second, cfg.QueenTimeout)
	assert.Equal(t, 7, cfg.QueenBatch)
	assert.Equal(t, "new", cfg.QueenSubscriptionMode)
	assert.Equal(t, int64(2048), cfg.QueenMaxBodyBytes)
	assert.Equal(t, 2*time.Second, cfg.SweepEvery)
	assert.Equal(t, "warn", cfg.LogLevel)
	assert.Equal(t, "postgres://postgres:hush@db:5432/postgres?sslmode=disable", cfg.Store)
	assert.Equal(t, []string{
		"DEFAULT_BATCH_SIZE", "DEFAULT_SUBSCRIPTION_MODE", "DEFAULT_TIMEOUT", "HOST", "LOG_LEVEL", "PG_HOST",
		"PG_PASSWORD", "PORT", "QUEEN_MAX_BODY_BYTES", "RETENTION_INTERVAL",
	}, cfg.Originals.Applied)
	assert.Equal(t, []string{"DB_POOL_SIZE"}, cfg.Originals.Ignored)
	assert.Equal(t, []string{"EVICTION_INTERVAL"}, cfg.Originals.Invalid)

	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte("queen_timeout: 6s\nqueen-batch: 8\n"), 0o600))
	t.Setenv("LEASEHOLD_SWEEP_EVERY", "9s")
	cfg, err = parsed("serve", "--config", file, "--store", "memory:", "--queen-addr=127.0.0.1:7002")
	require.NoError(t, err)
	assert.Equal(t, "memory:", cfg.Store, "flag")
	assert.Equal(t, "127.0.0.1:7002", cfg.QueenAddr, "flag")
	assert.Equal(t, 9*time.Second, cfg.SweepEvery, "environment")
	assert.Equal(t, 6*time.Second, cfg.QueenTimeout, "file")
	assert.Equal(t, 8, cfg.QueenBatch, "file")
	assert.Equal(t, []string{"DEFAULT_SUBSCRIPTION_MODE", "LOG_LEVEL", "QUEEN_MAX_BODY_BYTES"}, cfg.Originals.Applied, "only what took effect")

	var out, errs bytes.Buffer
	require.Equal(t, exitOK, Main([]string{"version"}, &out, &errs))
	assert.Empty(t, errs.String(), "only a server has use for them")
}

func TestOriginalNamesOfTokens(t *testing.T) {
	setenv(t, "JWT_ENABLED=true", "JWT_SECRET=theirs", "JWT_ALGORITHM=HS256", "JWT_CLOCK_SKEW=0", "JWT_SKIP_PATHS=/health,/x",
		"JWT_ISSUER=i", "JWT_AUDIENCE=a", "JWT_ROLE_ADMIN=root", "PORT=7001")
	cfg, err := parsed("serve")
	require.NoError(t, err, "with tokens required, 0.0.0.0 is fine")
	assert.Equal(t, "0.0.0.0:7001", cfg.QueenAddr)
	auth := cfg.queenAuth()
	assert.Equal(t, "theirs", string(auth.Secret))
	assert.Equal(t, []string{"/health", "/x"}, auth.SkipPaths)
	assert.Equal(t, []any{"HS256", "i", "a", "root", true}, []any{auth.Algorithm, auth.Issuer, auth.Audience, auth.Roles.Admin, auth.ClockSkew < 0})
	assert.Len(t, cfg.Originals.Applied, 9)
	t.Setenv(EnvQueenJwtSecret, "ours")
	cfg, err = parsed("serve")
	require.NoError(t, err)
	assert.Equal(t, "ours", cfg.QueenJwtSecret)
	assert.NotContains(t, cfg.Originals.Applied, "JWT_SECRET")
}

func TestWhatTheQueenSettingsRefuse(t *testing.T) {
	for _, c := range []struct {
		env  []string
		args []string
		want string
	}{
		{[]string{"PORT=7001"}, nil, "--queen-addr: 0.0.0.0:7001 is not a loopback address"},
		{[]string{"JWT_ENABLED=perhaps"}, nil, "JWT_ENABLED: the value cannot be read"},
		{[]string{"QUEEN_ENCRYPTION_KEY=00"}, nil, "QUEEN_ENCRYPTION_KEY: the value cannot be read"},
		{[]string{"JWT_ENABLED=true"}, nil, "no secret, public key or key set is"},
		{[]string{"JWT_ENABLED=true", "JWT_SECRET=s", "JWT_ALGORITHM=RS256"}, nil, "there is no key for it"},
		{[]string{"JWT_ENABLED=true", "JWT_PUBLIC_KEY=-----BEGIN nothing"}, nil, "not PEM"},
		{nil, []string{"--queen-jwt-public-key=/does/not/exist.pem"}, "--queen-jwt-public-key: open /does/not/exist.pem"},
		{nil, []string{"--queen-jwt-jwks-url=ftp://x"}, "not an http or https URL"},
		{nil, []string{"--queen-batch=0"}, "--queen-batch: 0 is out of range"},
		{nil, []string{"--queen-timeout=0s"}, "--queen-timeout: 0s is out of range"},
		{nil, []string{"--queen-subscription-mode=some"}, `--queen-subscription-mode: "some" is not one of: all, new`},
		{nil, []string{"--sweep-every=1ms"}, "--sweep-every: 1ms is out of range"},
		{nil, []string{"--queen-jwt-skip-paths=health"}, "--queen-jwt-skip-paths"},
		{nil, []string{"--queen-jwt-role-admin="}, "--queen-jwt-role-admin: must not be empty"},
	} {
		t.Run(c.want, func(t *testing.T) {
			setenv(t, c.env...)
			_, err := parsed(append([]string{"serve"}, c.args...)...)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// get asks the Queen listener and returns the status and the body.
func (c *child) get(t *testing.T, method, path, token, body string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+c.addrs["queen"]+path, strings.NewReader(body))
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(raw)
}

// TestServerUnderTheOriginalsEnvironment starts the program with nothing but the original's names and asks it whether they hold.
func TestServerUnderTheOriginalsEnvironment(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	require.NoError(t, err)
	dir := t.TempDir()
	key := filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	c := spawn(t, dir, []string{
		"JWT_ENABLED=true", "JWT_PUBLIC_KEY=" + key, "JWT_ISSUER=them", "DEFAULT_BATCH_SIZE=2", "DEFAULT_SUBSCRIPTION_MODE=new",
		"QUEEN_MAX_BODY_BYTES=4096", "DB_POOL_SIZE=9", "LOG_LEVEL=debug", "LEASEHOLD_QUEEN_DELIVERY_ATTEMPT=true",
	}, everywhere(dir)...)
	token, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
		"role": "read-write", "sub": "alice", "iss": "them", "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString(private)
	require.NoError(t, err)
	status, text := c.get(t, http.MethodGet, "/api/v1/pop/queue/q", "", "")
	assert.Equal(t, 401, status)
	assert.JSONEq(t, `{"error":"Authentication required"}`, text)
	status, _ = c.get(t, http.MethodGet, "/health", "", "")
	assert.Equal(t, 200, status)
	status, text = c.get(t, http.MethodPost, "/api/v1/push", token, `{"items":[{"queue":"q","payload":1},{"queue":"q","payload":2},{"queue":"q","payload":3}]}`)
	assert.Equal(t, 201, status, text)
	status, text = c.get(t, http.MethodPost, "/api/v1/push", token, `{"items":[{"queue":"q","payload":"`+strings.Repeat("x", 4096)+`"}]}`)
	assert.Equal(t, 413, status, text)
	status, _ = c.get(t, http.MethodDelete, "/api/v1/resources/queues/q", token, "")
	assert.Equal(t, 403, status)
	status, text = c.get(t, http.MethodGet, "/api/v1/pop/queue/q", token, "")
	require.Equal(t, 200, status, text)
	var p struct {
		Messages []struct {
			ProducerSub     string
			DeliveryAttempt int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &p))
	require.Len(t, p.Messages, 2, "the default batch")
	assert.Equal(t, "alice", p.Messages[0].ProducerSub)
	assert.Equal(t, 1, p.Messages[0].DeliveryAttempt)
	status, _ = c.get(t, http.MethodGet, "/api/v1/pop/queue/q?consumerGroup=late", token, "")
	assert.Equal(t, 204, status, "a new group starts at the end")
	log := c.logged()
	for _, name := range []string{"JWT_ENABLED", "JWT_PUBLIC_KEY", "JWT_ISSUER", "DEFAULT_BATCH_SIZE", "DEFAULT_SUBSCRIPTION_MODE", "QUEEN_MAX_BODY_BYTES", "LOG_LEVEL", "DB_POOL_SIZE"} {
		assert.Equal(t, 1, strings.Count(log, `"`+name+`"`), "%s is said once", name)
	}
	assert.NotContains(t, log, token)
	assert.NotContains(t, log, "BEGIN PUBLIC KEY")
}

// TestEveryNameOfTheOriginal sets each environment name of Queen's protocol in turn: it takes effect at the setting that stands for it, or is
// named as one without a counterpart; none is passed over in silence.
func TestEveryNameOfTheOriginal(t *testing.T) {
	key := strings.Repeat("ab", 32)
	tokens := []string{"JWT_ENABLED=true", "JWT_SECRET=secret"}
	for _, c := range []struct {
		name, value string
		with        []string
		// got reads the setting; nil is a name without a counterpart.
		got  func(*Config) any
		want any
	}{
		{"PORT", "7001", nil, func(c *Config) any { return c.QueenAddr }, "0.0.0.0:7001"},
		{"HOST", "127.0.0.1", nil, func(c *Config) any { return c.QueenAddr }, "127.0.0.1:6632"},
		{"PG_HOST", "db", nil, func(c *Config) any { return c.Store }, "postgres://postgres:postgres@db:5432/postgres?sslmode=disable"},
		{"PG_PORT", "5433", nil, func(c *Config) any { return c.Store }, "postgres://postgres:postgres@localhost:5433/postgres?sslmode=disable"},
		{"PG_DB", "queen", nil, func(c *Config) any { return c.Store }, "postgres://postgres:postgres@localhost:5432/queen?sslmode=disable"},
		{"PG_USER", "u", nil, func(c *Config) any { return c.Store }, "postgres://u:postgres@localhost:5432/postgres?sslmode=disable"},
		{"PG_PASSWORD", "p@", nil, func(c *Config) any { return c.Store }, "postgres://postgres:p%40@localhost:5432/postgres?sslmode=disable"},
		{"PG_USE_SSL", "true", nil, func(c *Config) any { return c.Store }, "postgres://postgres:postgres@localhost:5432/postgres?sslmode=verify-full"},
		{"PG_SSL_REJECT_UNAUTHORIZED", "false", []string{"PG_USE_SSL=true"}, func(c *Config) any { return c.Store }, "postgres://postgres:postgres@localhost:5432/postgres?sslmode=require"},
		{"DB_POOL_SIZE", "150", nil, nil, nil},
		{"DB_CONNECTION_TIMEOUT", "2000", nil, nil, nil},
		{"DB_STATEMENT_TIMEOUT", "30000", nil, nil, nil},
		{"DB_LOCK_TIMEOUT", "10000", nil, nil, nil},
		{"DB_IDLE_TIMEOUT", "30000", nil, nil, nil},
		{"DEFAULT_TIMEOUT", "1500", nil, func(c *Config) any { return c.QueenTimeout }, 1500 * time.Millisecond},
		{"POP_DEFAULT_TIMEOUT_MS", "2500", nil, func(c *Config) any { return c.QueenTimeout }, 2500 * time.Millisecond},
		{"DEFAULT_BATCH_SIZE", "9", nil, func(c *Config) any { return c.QueenBatch }, 9},
		{"DEFAULT_SUBSCRIPTION_MODE", "new", nil, func(c *Config) any { return c.QueenSubscriptionMode }, "new"},
		{"POP_WAIT_INITIAL_INTERVAL_MS", "100", nil, nil, nil},
		{"POP_WAIT_BACKOFF_THRESHOLD", "3", nil, nil, nil},
		{"POP_WAIT_BACKOFF_MULTIPLIER", "2.0", nil, nil, nil},
		{"POP_WAIT_MAX_INTERVAL_MS", "1000", nil, nil, nil},
		{"RETENTION_INTERVAL", "3000", nil, func(c *Config) any { return c.SweepEvery }, 3 * time.Second},
		{"EVICTION_INTERVAL", "4000", nil, func(c *Config) any { return c.SweepEvery }, 4 * time.Second},
		{"RETENTION_BATCH_SIZE", "1000", nil, nil, nil},
		{"EVICTION_BATCH_SIZE", "1000", nil, nil, nil},
		{"PARTITION_CLEANUP_DAYS", "7", nil, func(c *Config) any { return c.partitionIdle() }, 7 * 24 * time.Hour},
		{"PARTITION_CLEANUP_DAYS", "0", nil, func(c *Config) any { return c.partitionIdle() < 0 }, true},
		{"METRICS_RETENTION_DAYS", "10", nil, func(c *Config) any { return c.QueenMetricsRetention }, 240 * time.Hour},
		{"LOG_LEVEL", "trace", nil, func(c *Config) any { return c.LogLevel }, "debug"},
		{"FILE_BUFFER_DIR", "/var/lib/queen/buffers", nil, func(c *Config) any { return c.QueenSpoolDir }, "/var/lib/queen/buffers"},
		{"QUEEN_ENCRYPTION_KEY", key, nil, func(c *Config) any { return c.EncryptionKey }, key},
		{"QUEEN_MAX_BODY_BYTES", "2048", nil, func(c *Config) any { return c.QueenMaxBodyBytes }, int64(2048)},
		{"JWT_ENABLED", "true", tokens[1:], func(c *Config) any { return c.QueenJwtRequired }, true},
		{"JWT_ALGORITHM", "HS384", tokens, func(c *Config) any { return c.queenAuth().Algorithm }, "HS384"},
		{"JWT_SECRET", "other", tokens[:1], func(c *Config) any { return string(c.queenAuth().Secret) }, "other"},
		{"JWT_JWKS_URL", "https://id.example/keys", tokens[:1], func(c *Config) any { return c.queenAuth().JWKS.URL }, "https://id.example/keys"},
		{"JWT_ISSUER", "i", tokens, func(c *Config) any { return c.queenAuth().Issuer }, "i"},
		{"JWT_AUDIENCE", "a", tokens, func(c *Config) any { return c.queenAuth().Audience }, "a"},
		{"JWT_CLOCK_SKEW", "5", tokens, func(c *Config) any { return c.queenAuth().ClockSkew }, 5 * time.Second},
		{"JWT_SKIP_PATHS", "/health", tokens, func(c *Config) any { return strings.Join(c.queenAuth().SkipPaths, " ") }, "/health"},
		{"JWT_JWKS_REFRESH_INTERVAL", "60", tokens, func(c *Config) any { return c.queenAuth().JWKS.Refresh }, time.Minute},
		{"JWT_JWKS_TIMEOUT_MS", "500", tokens, func(c *Config) any { return c.queenAuth().JWKS.Timeout }, 500 * time.Millisecond},
		{"JWT_ROLES_CLAIM", "r", tokens, func(c *Config) any { return c.queenAuth().Roles.Claim }, "r"},
		{"JWT_ROLES_ARRAY_CLAIM", "rs", tokens, func(c *Config) any { return c.queenAuth().Roles.ArrayClaim }, "rs"},
		{"JWT_ROLE_ADMIN", "A", tokens, func(c *Config) any { return c.queenAuth().Roles.Admin }, "A"},
		{"JWT_ROLE_READ_WRITE", "RW", tokens, func(c *Config) any { return c.queenAuth().Roles.ReadWrite }, "RW"},
		{"JWT_ROLE_READ_ONLY", "RO", tokens, func(c *Config) any { return c.queenAuth().Roles.ReadOnly }, "RO"},
		{"JWT_ROLE_WRITE_ONLY", "WO", tokens, func(c *Config) any { return c.queenAuth().Roles.WriteOnly }, "WO"},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			setenv(t, append(c.with, c.name+"="+c.value)...)
			cfg, err := parsed("serve", "--insecure")
			require.NoError(t, err)
			if c.got == nil {
				assert.Equal(t, []string{c.name}, cfg.Originals.Ignored)
				assert.Empty(t, cfg.Originals.Applied)
				return
			}
			assert.Equal(t, c.want, c.got(&cfg))
			assert.Contains(t, cfg.Originals.Applied, c.name, "it is said in the log")
			assert.Empty(t, cfg.Originals.Ignored)
		})
	}
}

// TestThePublicKeyOfTheOriginal is JWT_PUBLIC_KEY, as a file and as text.
func TestThePublicKeyOfTheOriginal(t *testing.T) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	require.NoError(t, err)
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	file := filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	for _, value := range []string{text, file, strings.ReplaceAll(text, "\n", `\n`)} {
		setenv(t, "JWT_ENABLED=true", "JWT_PUBLIC_KEY="+value)
		cfg, err := parsed("serve")
		require.NoError(t, err)
		assert.Equal(t, strings.TrimSpace(text), strings.TrimSpace(string(cfg.queenAuth().PublicKey)))
		assert.Contains(t, cfg.Originals.Applied, "JWT_PUBLIC_KEY")
	}
}
