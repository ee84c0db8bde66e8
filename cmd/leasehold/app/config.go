package app

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/go-playground/validator/v10"

	"github.com/leasehold/leasehold/adapters/querator"
)

// Off is the address that switches a listener off.
const Off = "off"

// EnvAdminToken names the variable that holds the admin listener's bearer
// token. There is no flag for it, since every user of a machine sees flags.
const EnvAdminToken = "LEASEHOLD_ADMIN_TOKEN"

// Config is everything that "leasehold serve" can be told. The tags are read
// by kong (command line, environment), by the file reader (the flags' names)
// and by validator.
type Config struct {
	Store   string `env:"LEASEHOLD_STORE" help:"Where messages live: sqlite:PATH, memory: or postgres://…  Default: SQLite in the data directory." placeholder:"URL"`
	Schema  string `env:"LEASEHOLD_SCHEMA" help:"Schema of the tables in PostgreSQL. Default: leasehold, or what ?schema= in the URL says." placeholder:"NAME" validate:"omitempty,max=63"`
	DataDir string `default:"./leasehold-data" env:"LEASEHOLD_DATA_DIR" help:"Folder for the embedded store and what is local to this server. Default: ${default}." placeholder:"DIR" validate:"required"`

	QueenAddr    string   `default:"127.0.0.1:6632" env:"LEASEHOLD_QUEEN_ADDR" help:"Queen listener, or off. Default: ${default}." placeholder:"HOST:PORT" validate:"listen"`
	QueratorAddr []string `default:"127.0.0.1:2319" env:"LEASEHOLD_QUERATOR_ADDR" help:"Querator listener, or off; may be repeated, with a route family in front: reserve=HOST:PORT, lease=HOST:PORT. Default: ${default}." placeholder:"[FAMILY=]HOST:PORT" validate:"dive,familylisten"`
	CfqueuesAddr string   `default:"127.0.0.1:8790" env:"LEASEHOLD_CFQUEUES_ADDR" help:"Cloudflare Queues listener, or off. Default: ${default}." placeholder:"HOST:PORT" validate:"listen"`
	AdminAddr    string   `default:"127.0.0.1:8400" env:"LEASEHOLD_ADMIN_ADDR" help:"Listener for /healthz, /readyz and /metrics, or off. LEASEHOLD_ADMIN_TOKEN guards the latter. Default: ${default}." placeholder:"HOST:PORT" validate:"listen"`
	ControlAddr  string   `default:"off" env:"LEASEHOLD_CONTROL_ADDR" help:"For tests only: listener that moves the server's clock and pauses queues; loopback only. Default: ${default}." placeholder:"HOST:PORT" validate:"listen"`
	Insecure     bool     `env:"LEASEHOLD_INSECURE" help:"Allow listeners that are not on loopback to serve without authentication."`

	LogFormat string `default:"text" env:"LEASEHOLD_LOG_FORMAT" help:"text or json." validate:"oneof=text json"`
	LogLevel  string `default:"info" env:"LEASEHOLD_LOG_LEVEL" help:"debug, info, warn or error." validate:"oneof=debug info warn error"`
	// MetricsQueues bounds the number of queues that get metrics of their own;
	// the others are summed under queue="_other".
	MetricsQueues int `default:"100" env:"LEASEHOLD_METRICS_QUEUES" help:"How many queues get metrics of their own; the rest is summed as queue=\"_other\". Default: ${default}." placeholder:"N" validate:"gte=0,lte=100000"`

	// AdminToken is read from the environment alone (EnvAdminToken).
	AdminToken string `kong:"-"`

	QueenConfig      `embed:""`
	CfqueuesConfig   `embed:""`
	QueratorConfig   `embed:""`
	EncryptionConfig `embed:""`
	ControlConfig    `embed:""`
	SpoolConfig      `embed:""`
}

// DefaultConfig returns what "leasehold serve" without flags, environment and
// file means.
func DefaultConfig() Config {
	return Config{
		DataDir:   "./leasehold-data",
		QueenAddr: "127.0.0.1:6632", QueratorAddr: []string{"127.0.0.1:2319"}, CfqueuesAddr: "127.0.0.1:8790",
		AdminAddr: "127.0.0.1:8400", ControlAddr: Off,
		LogFormat: "text", LogLevel: "info", MetricsQueues: 100,
		QueenConfig: defaultQueenConfig(), CfqueuesConfig: defaultCfqueuesConfig(), QueratorConfig: defaultQueratorConfig(), SpoolConfig: defaultSpoolConfig(),
	}
}

// endpoint is a Querator listener: an address and its family ("" = any).
type endpoint struct{ family, addr string }

// splitFamily cuts "reserve=host:port" in two. An address may not contain "=",
// so the cut is never ambiguous.
func splitFamily(s string) endpoint {
	if family, addr, ok := strings.Cut(s, "="); ok {
		return endpoint{family: family, addr: addr}
	}
	return endpoint{addr: s}
}

// Check looks at the configuration as a whole and returns every problem in
// the words of the flags.
func (c *Config) Check() error {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(flagName)
	rules := map[string]func(string) bool{
		"listen": validAddr,
		"familylisten": func(s string) bool {
			e := splitFamily(s)
			_, err := querator.ParseGeneration(e.family)
			return validAddr(e.addr) && err == nil
		},
	}
	for tag, rule := range rules {
		if err := v.RegisterValidation(tag, func(fl validator.FieldLevel) bool { return rule(fl.Field().String()) }); err != nil {
			return fmt.Errorf("register rule %s: %w", tag, err)
		}
	}
	var problems []error
	var found validator.ValidationErrors
	if err := v.Struct(c); errors.As(err, &found) {
		for _, f := range found {
			problems = append(problems, errors.New(explain(f)))
		}
	} else if err != nil {
		return err
	}
	if len(problems) == 0 {
		problems = append(problems, c.checkQueen()...)
		problems = append(problems, c.checkCfqueues()...)
		problems = append(problems, c.checkQuerator()...)
		if _, err := c.ring(); err != nil {
			problems = append(problems, err)
		}
	}
	if len(problems) == 0 {
		problems = append(problems, c.checkExposure()...)
	}
	return errors.Join(problems...)
}

// explain turns one finding of validator into a sentence about a flag.
func explain(f validator.FieldError) string {
	name, value := f.Field(), f.Value()
	switch f.Tag() {
	case "listen":
		return fmt.Sprintf("--%s: %q is not an address: want HOST:PORT or off", name, value)
	case "familylisten":
		return fmt.Sprintf("--%s: %q is not an address: want HOST:PORT, off, or a family (reserve, lease, R1, R2, L1, L2) in front as in reserve=HOST:PORT",
			strings.TrimRight(name, "[]0123456789"), value)
	case "oneof":
		return fmt.Sprintf("--%s: %q is not one of: %s", name, value, strings.Join(strings.Fields(f.Param()), ", "))
	case "required":
		return fmt.Sprintf("--%s: must not be empty", name)
	default:
		return fmt.Sprintf("--%s: %v is out of range (%s %s)", name, value, f.Tag(), f.Param())
	}
}

// validAddr says whether s is "off" or HOST:PORT with a numeric port.
func validAddr(s string) bool {
	if s == Off {
		return true
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil || port == "" {
		return false
	}
	for _, c := range port {
		if c < '0' || c > '9' {
			return false
		}
	}
	n, err := net.LookupPort("tcp", port)
	return err == nil && n <= 65535
}

// checkExposure refuses listeners that other machines can reach and that
// nothing guards.
func (c *Config) checkExposure() []error {
	var problems []error
	refuse := func(flag, addr, remedy string) {
		problems = append(problems, fmt.Errorf("--%s: %s is not a loopback address: %s", flag, addr, remedy))
	}
	open := func(flag, addr string) {
		if addr != Off && !c.Insecure && !loopback(addr) {
			refuse(flag, addr, "no authentication is configured, so this needs --insecure")
		}
	}
	if auth := c.queenAuth(); !auth.Enabled() {
		open("queen-addr", c.QueenAddr)
	}
	for _, s := range c.QueratorAddr {
		if addr := splitFamily(s).addr; addr != Off && !c.Insecure && !loopback(addr) && !c.queratorGuarded() {
			refuse("querator-addr", addr, "set "+EnvQueratorRootKey+", so that API keys are asked for, or give --insecure")
		}
	}
	// The tokens of Cloudflare Queues are in the store: App.openTokens looks at its address.
	if c.AdminAddr != Off && !c.Insecure && c.AdminToken == "" && !loopback(c.AdminAddr) {
		refuse("admin-addr", c.AdminAddr, "set "+EnvAdminToken+" or give --insecure")
	}
	if c.ControlAddr != Off && !loopback(c.ControlAddr) {
		refuse("control-addr", c.ControlAddr, "the control listener moves the clock and is for tests on this machine")
	}
	return problems
}

// loopback says whether addr can be reached from this machine only. A name
// counts when everything it resolves to is loopback; an empty host is every
// interface.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		return false
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	ips, err := net.LookupIP(host)
	return err == nil && len(ips) > 0 && !slices.ContainsFunc(ips, func(ip net.IP) bool { return !ip.IsLoopback() })
}

// fromEnvironment fills in what comes from the environment alone.
func (c *Config) fromEnvironment() {
	c.AdminToken = os.Getenv(EnvAdminToken)
	c.CfqueuesToken = os.Getenv(EnvCfqueuesToken)
	c.QueratorRootKey = os.Getenv(EnvQueratorRootKey)
	c.readKeys()
}
