package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"

	"github.com/leasehold/leasehold/cmd/leasehold/bench"
)

// Version is the release, set by the linker; a build from source shows its
// commit instead.
var Version = ""

// cli is the grammar of the command line.
type cli struct {
	Serve   serveCmd      `cmd:"" help:"Run the server."`
	Bench   bench.Command `cmd:"" help:"Measure a server."`
	Token   tokenCmd      `cmd:"" help:"Make, list and revoke tokens of a running server."`
	Version versionCmd    `cmd:"" help:"Print the version."`
}

type serveCmd struct {
	Config  string `env:"LEASEHOLD_CONFIG" help:"YAML file with the names of these flags as keys. Flags come before environment variables, those before the file." placeholder:"FILE" type:"path"`
	Options Config `embed:""`
}

type versionCmd struct{}

// Exit codes of the command.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// exit carries kong's wish to end the process, e.g. after --help.
type exit int

// Main runs the command line args and returns the process's exit code.
func Main(args []string, stdout, stderr io.Writer) (code int) {
	defer func() {
		cause := recover()
		if e, ok := cause.(exit); ok {
			code = int(e)
		} else if cause != nil {
			panic(cause)
		}
	}()
	if len(args) > 0 && args[0] == "bench" {
		return bench.Main(args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "token" {
		return tokenMain(args[1:], stdout, stderr)
	}
	cmd, cfg, err := parse(args, stdout, stderr)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "leasehold:", err)
		return exitUsage
	}
	if cmd == "version" {
		_, _ = fmt.Fprintln(stdout, "leasehold", version())
		return exitOK
	}
	logger := newLogger(cfg, stderr)
	cfg.Originals.log(context.Background(), logger)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	// After the first signal the second one ends the process at once.
	context.AfterFunc(ctx, stop)
	spareCollector()
	if err := New(cfg, Options{Logger: logger}).Run(ctx); err != nil {
		logger.ErrorContext(ctx, "server failed", "error", err)
		return exitFailed
	}
	return exitOK
}

// parse reads the command line, the environment and the file, and returns the
// command's name and the checked configuration of "serve".
func parse(args []string, stdout, stderr io.Writer) (string, Config, error) {
	var c cli
	file := &fileResolver{}
	theirs := readOriginals(file)
	parser, err := kong.New(&c, kong.Name("leasehold"),
		kong.Description("One core of leased batches behind the Queen, Querator and Cloudflare Queues protocols."),
		kong.Writers(stdout, stderr), kong.Exit(func(n int) { panic(exit(n)) }), kong.Resolvers(theirs, file),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err != nil {
		return "", Config{}, err
	}
	if file.path = configPath(args); file.path != "" {
		if err := file.load(); err != nil {
			return "", Config{}, err
		}
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		return "", Config{}, err
	}
	cfg := c.Serve.Options
	if ctx.Command() == "serve" {
		cfg.fromEnvironment()
		if err = theirs.secrets(&cfg); err == nil {
			err = cfg.Check()
		}
	}
	return ctx.Command(), cfg, err
}

// configPath finds the file before the flags are parsed, since the file takes
// part in parsing them.
func configPath(args []string) string {
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, "--config="); ok {
			return v
		}
		if a == "--config" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return os.Getenv("LEASEHOLD_CONFIG")
}

// fileResolver gives kong the values of a YAML file, below the environment.
type fileResolver struct {
	path   string
	values map[string]any
}

// load reads the file and refuses keys that are no flags, which would
// otherwise be a setting that silently does nothing.
func (f *fileResolver) load() error {
	raw, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	values := map[string]any{}
	if err := yaml.NewDecoder(bytes.NewReader(raw)).Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("--config: %s is not a YAML mapping: %w", f.path, err)
	}
	f.values = make(map[string]any, len(values))
	known := flagNames()
	for k, v := range values {
		name := strings.ReplaceAll(k, "_", "-")
		if !slices.Contains(known, name) {
			return fmt.Errorf("--config: %s: unknown key %q", f.path, k)
		}
		f.values[name] = v
	}
	return nil
}

// Validate implements kong.Resolver.
func (f *fileResolver) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (f *fileResolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	v, ok := f.values[flag.Name]
	if !ok || slices.ContainsFunc(flag.Envs, func(e string) bool { _, set := os.LookupEnv(e); return set }) {
		return nil, nil
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []any:
		return v, nil
	default:
		return fmt.Sprint(v), nil
	}
}

// flagNames lists the flags that a file may set.
func flagNames() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if f.Tag.Get("kong") != "-" && !f.Anonymous {
			names = append(names, flagName(f))
		}
	}
	return names
}

// flagName is the flag of a field of Config: its name in lower case with a
// hyphen before each inner capital, as kong makes it.
func flagName(f reflect.StructField) string {
	var b strings.Builder
	for i, r := range f.Name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// newLogger builds the program's logger; the configuration is valid.
func newLogger(c Config, w io.Writer) *slog.Logger {
	var level slog.Level
	// The names were checked against the list that slog also knows.
	_ = level.UnmarshalText([]byte(c.LogLevel))
	o := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// version is the release, or what the build tells of itself.
func version() string {
	if Version != "" {
		return Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	revision := ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			revision = s.Value[:12]
		}
	}
	switch {
	case info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	case revision != "":
		return "devel-" + revision
	default:
		return "devel"
	}
}
