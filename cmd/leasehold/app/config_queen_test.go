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
