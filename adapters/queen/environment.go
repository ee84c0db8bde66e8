package queen

import (
	"encoding/hex"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Environment is what the environment names of the original server say (protocol §13). Zero fields were not set.
type Environment struct {
	// Options holds Timeout, Batch, SubscribeNew and MaxBodyBytes.
	Options Options
	// Addr is the listener of PORT and HOST, as HOST:PORT.
	Addr string
	// SweepEvery is the time between sweeps for retention, the shorter of RETENTION_INTERVAL and EVICTION_INTERVAL.
	SweepEvery time.Duration
	// PartitionIdle is PARTITION_CLEANUP_DAYS, negative for 0 days, which mean never.
	PartitionIdle time.Duration
	// MetricsRetention is METRICS_RETENTION_DAYS.
	MetricsRetention time.Duration
	// SpoolDir is FILE_BUFFER_DIR.
	SpoolDir string
	// LogLevel is one of debug, info, warn and error; the original's trace is debug.
	LogLevel string
	// PostgresURL is made of the PG_ names, where one is set. It may hold a password.
	PostgresURL string
	// JWT holds the JWT_ names, where JWT_ENABLED says so.
	JWT EnvironmentJWT
	// EncryptionKey is QUEEN_ENCRYPTION_KEY, 64 hex digits.
	EncryptionKey string

	// Applied are names whose value is in a field above, Ignored are those of the original that have no counterpart, and Invalid those with
	// a value that cannot be read; all sorted. Invalid ones have no effect.
	Applied, Ignored, Invalid []string
	// Unsafe are names that ask for a protection (authentication, encryption at rest) in words that cannot be read. A server that passed
	// over them would be open where the original was not.
	Unsafe []string
}

// EnvironmentJWT are the JWT_ names. Zero fields were not set.
type EnvironmentJWT struct {
	// Enabled is JWT_ENABLED; without it the other names are among Environment.Ignored and have no effect.
	Enabled bool
	// PublicKey is PEM text or the name of a file.
	Algorithm, Secret, PublicKey, JWKSURL, Issuer, Audience string
	// ClockSkew is negative for JWT_CLOCK_SKEW=0.
	ClockSkew, JWKSRefresh, JWKSTimeout time.Duration
	SkipPaths                           []string
	Roles                               Roles
}

// environmentName reads one name of the original. It reports whether the value could be read.
type environmentName struct {
	name  string
	apply func(e *Environment, value string) bool
}

// environmentNames are applied in this order, so what stands behind goes before: DEFAULT_TIMEOUT before POP_DEFAULT_TIMEOUT_MS.
var environmentNames = []environmentName{
	{"POP_DEFAULT_TIMEOUT_MS", func(e *Environment, v string) bool { return readMillis(v, &e.Options.Timeout) }},
	{"DEFAULT_TIMEOUT", func(e *Environment, v string) bool { return readMillis(v, &e.Options.Timeout) }},
	{"DEFAULT_BATCH_SIZE", func(e *Environment, v string) bool {
		n, ok := readPositive(v)
		if ok {
			e.Options.Batch = int(min(n, maxBatch))
		}
		return ok
	}},
	{"DEFAULT_SUBSCRIPTION_MODE", func(e *Environment, v string) bool {
		e.Options.SubscribeNew = v == "new" || v == "new-only"
		return e.Options.SubscribeNew || v == "all"
	}},
	{"QUEEN_MAX_BODY_BYTES", func(e *Environment, v string) bool {
		n, ok := readPositive(v)
		if ok {
			e.Options.MaxBodyBytes = n
		}
		return ok
	}},
	{"RETENTION_INTERVAL", func(e *Environment, v string) bool { return readMillis(v, &e.SweepEvery) }},
	{"EVICTION_INTERVAL", func(e *Environment, v string) bool {
		var d time.Duration
		ok := readMillis(v, &d)
		if ok && (e.SweepEvery == 0 || d < e.SweepEvery) {
			e.SweepEvery = d
		}
		return ok
	}},
	{"PARTITION_CLEANUP_DAYS", func(e *Environment, v string) bool {
		n, ok := parseInteger([]byte(v))
		if ok = ok && n >= 0; ok {
			e.PartitionIdle = days(n)
			if n == 0 {
				e.PartitionIdle = -1
			}
		}
		return ok
	}},
	{"METRICS_RETENTION_DAYS", func(e *Environment, v string) bool {
		n, ok := readPositive(v)
		if ok {
			e.MetricsRetention = days(n)
		}
		return ok
	}},
	{"FILE_BUFFER_DIR", func(e *Environment, v string) bool { e.SpoolDir = v; return true }},
	{"LOG_LEVEL", func(e *Environment, v string) bool {
		v = strings.ToLower(v)
		if v == "trace" {
			v = "debug"
		}
		ok := slices.Contains([]string{"debug", "info", "warn", "error"}, v)
		if ok {
			e.LogLevel = v
		}
		return ok
	}},
}

// ignoredNames have no counterpart here: pools, worker threads, re-check intervals (a parked pop is woken), batch sizes of sweeps.
var ignoredNames = []string{
	"DB_POOL_SIZE", "DB_CONNECTION_TIMEOUT", "DB_STATEMENT_TIMEOUT", "DB_LOCK_TIMEOUT", "DB_IDLE_TIMEOUT", "DB_POOL_ACQUISITION_TIMEOUT",
	"POP_WAIT_INITIAL_INTERVAL_MS", "POP_WAIT_BACKOFF_THRESHOLD", "POP_WAIT_BACKOFF_MULTIPLIER", "POP_WAIT_MAX_INTERVAL_MS",
	"RETENTION_BATCH_SIZE", "EVICTION_BATCH_SIZE", "NUM_WORKERS", "WORKER_ID", "APP_NAME", "WEBAPP_ROOT",
}

// jwtTexts are the JWT_ names whose value is taken as it is.
var jwtTexts = []struct {
	name string
	to   func(*EnvironmentJWT) *string
}{
	{"JWT_ALGORITHM", func(j *EnvironmentJWT) *string { return &j.Algorithm }},
	{"JWT_SECRET", func(j *EnvironmentJWT) *string { return &j.Secret }},
	{"JWT_PUBLIC_KEY", func(j *EnvironmentJWT) *string { return &j.PublicKey }},
	{"JWT_JWKS_URL", func(j *EnvironmentJWT) *string { return &j.JWKSURL }},
	{"JWT_ISSUER", func(j *EnvironmentJWT) *string { return &j.Issuer }},
	{"JWT_AUDIENCE", func(j *EnvironmentJWT) *string { return &j.Audience }},
	{"JWT_ROLES_CLAIM", func(j *EnvironmentJWT) *string { return &j.Roles.Claim }},
	{"JWT_ROLES_ARRAY_CLAIM", func(j *EnvironmentJWT) *string { return &j.Roles.ArrayClaim }},
	{"JWT_ROLE_ADMIN", func(j *EnvironmentJWT) *string { return &j.Roles.Admin }},
	{"JWT_ROLE_READ_WRITE", func(j *EnvironmentJWT) *string { return &j.Roles.ReadWrite }},
	{"JWT_ROLE_READ_ONLY", func(j *EnvironmentJWT) *string { return &j.Roles.ReadOnly }},
	{"JWT_ROLE_WRITE_ONLY", func(j *EnvironmentJWT) *string { return &j.Roles.WriteOnly }},
}

// jwtValues are the JWT_ names whose value is read; they report whether it could be.
var jwtValues = []struct {
	name  string
	apply func(j *EnvironmentJWT, value string) bool
}{
	{"JWT_CLOCK_SKEW", func(j *EnvironmentJWT, v string) bool {
		n, ok := parseInteger([]byte(v))
		if ok = ok && n >= 0; ok {
			j.ClockSkew = time.Duration(min(n, maxSeconds)) * time.Second
			if n == 0 {
				j.ClockSkew = -1
			}
		}
		return ok
	}},
	{"JWT_SKIP_PATHS", func(j *EnvironmentJWT, v string) bool {
		for path := range strings.SplitSeq(v, ",") {
			if path = strings.TrimSpace(path); path != "" {
				j.SkipPaths = append(j.SkipPaths, path)
			}
		}
		return len(j.SkipPaths) > 0
	}},
	{"JWT_JWKS_REFRESH_INTERVAL", func(j *EnvironmentJWT, v string) bool {
		n, ok := readPositive(v)
		if ok {
			j.JWKSRefresh = time.Duration(min(n, maxSeconds)) * time.Second
		}
		return ok
	}},
	{"JWT_JWKS_TIMEOUT_MS", func(j *EnvironmentJWT, v string) bool { return readMillis(v, &j.JWKSTimeout) }},
}

// postgresNames are the parts of the original's database.
var postgresNames = []string{"PG_HOST", "PG_PORT", "PG_DB", "PG_USER", "PG_PASSWORD", "PG_USE_SSL", "PG_SSL_REJECT_UNAUTHORIZED"}

// FromEnvironment reads the names of the original server. lookup is os.LookupEnv, or what a test puts in its place; an empty value is none.
func FromEnvironment(lookup func(name string) (value string, ok bool)) Environment {
	var e Environment
	get := func(name string) (string, bool) {
		value, ok := lookup(name)
		value = strings.TrimSpace(value)
		return value, ok && value != ""
	}
	for _, n := range environmentNames {
		if value, ok := get(n.name); ok {
			e.note(n.name, n.apply(&e, value))
		}
	}
	e.listener(get)
	e.postgres(get)
	for _, name := range ignoredNames {
		if _, ok := get(name); ok {
			e.Ignored = append(e.Ignored, name)
		}
	}
	e.protections(get)
	for _, list := range [][]string{e.Applied, e.Ignored, e.Invalid, e.Unsafe} {
		slices.Sort(list)
	}
	return e
}

func (e *Environment) note(name string, ok bool) {
	if ok {
		e.Applied = append(e.Applied, name)
	} else {
		e.Invalid = append(e.Invalid, name)
	}
}

// listener joins HOST and PORT, each with the original's default for the other.
func (e *Environment) listener(get func(string) (string, bool)) {
	host, hasHost := get("HOST")
	port, hasPort := get("PORT")
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		hasPort = err == nil && n > 0
		e.note("PORT", hasPort)
	}
	if hasHost {
		e.note("HOST", true)
	} else {
		host = "0.0.0.0"
	}
	if !hasPort {
		port = "6632"
	}
	if hasHost || hasPort {
		e.Addr = net.JoinHostPort(host, port)
	}
}

// postgres makes a URL of the PG_ names, where any is set.
func (e *Environment) postgres(get func(string) (string, bool)) {
	parts := map[string]string{"PG_HOST": "localhost", "PG_PORT": "5432", "PG_DB": "postgres", "PG_USER": "postgres", "PG_PASSWORD": "postgres"}
	found := false
	for _, name := range postgresNames {
		if value, ok := get(name); ok {
			parts[name], found = value, true
			e.note(name, true)
		}
	}
	if !found {
		return
	}
	mode := "disable"
	if parts["PG_USE_SSL"] == "true" {
		if mode = "verify-full"; parts["PG_SSL_REJECT_UNAUTHORIZED"] == "false" {
			mode = "require"
		}
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(parts["PG_USER"], parts["PG_PASSWORD"]),
		Host: net.JoinHostPort(parts["PG_HOST"], parts["PG_PORT"]), Path: "/" + parts["PG_DB"],
		RawQuery: url.Values{"sslmode": {mode}}.Encode(),
	}
	e.PostgresURL = u.String()
}

// protections reads what guards the server: authentication and encryption at rest.
func (e *Environment) protections(get func(string) (string, bool)) {
	if enabled, ok := get("JWT_ENABLED"); ok {
		e.JWT.Enabled, ok = readSwitch(enabled)
		switch {
		case !ok:
			e.Unsafe = append(e.Unsafe, "JWT_ENABLED")
		case e.JWT.Enabled:
			e.Applied = append(e.Applied, "JWT_ENABLED")
		default:
			e.Ignored = append(e.Ignored, "JWT_ENABLED")
		}
	}
	read := func(name string, apply func(value string) bool) {
		value, ok := get(name)
		switch {
		case !ok:
		case !e.JWT.Enabled:
			e.Ignored = append(e.Ignored, name)
		default:
			e.note(name, apply(value))
		}
	}
	for _, n := range jwtTexts {
		read(n.name, func(value string) bool { *n.to(&e.JWT) = value; return true })
	}
	for _, n := range jwtValues {
		read(n.name, func(value string) bool { return n.apply(&e.JWT, value) })
	}
	if key, ok := get("QUEEN_ENCRYPTION_KEY"); ok {
		if raw, err := hex.DecodeString(key); err != nil || len(raw) != 32 {
			e.Unsafe = append(e.Unsafe, "QUEEN_ENCRYPTION_KEY")
		} else {
			e.EncryptionKey = key
			e.Applied = append(e.Applied, "QUEEN_ENCRYPTION_KEY")
		}
	}
}

// readSwitch reads a boolean; the original knows true and 1, and people write more.
func readSwitch(value string) (on, ok bool) {
	switch strings.ToLower(value) {
	case "true", "1", "yes", "on":
		return true, true
	case "false", "0", "no", "off":
		return false, true
	}
	return false, false
}

// days is a time in days, a hundred years at most.
func days(n int64) time.Duration { return time.Duration(min(n, 36500)) * 24 * time.Hour }

func readPositive(value string) (int64, bool) {
	n, ok := parseInteger([]byte(value))
	return n, ok && n > 0
}

func readMillis(value string, to *time.Duration) bool {
	n, ok := readPositive(value)
	if ok {
		*to = time.Duration(min(n, maxTimeout.Milliseconds())) * time.Millisecond
	}
	return ok
}
