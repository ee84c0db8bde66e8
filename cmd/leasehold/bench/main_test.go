package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/cmd/leasehold/app"
	"github.com/leasehold/leasehold/cmd/leasehold/bench"
	"github.com/leasehold/leasehold/conformance/testenv"
)

// TestMain lets the test binary be the program that the command starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "serve" || os.Args[1] == "bench") {
		os.Exit(app.Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == "--addr" {
		os.Exit(original())
	}
	testenv.Main(m)
}

// original makes the test binary the original Querator, as far as its command line goes: it is
// this program's own server.
func original() int {
	cfg := app.DefaultConfig()
	cfg.Store, cfg.QueenAddr, cfg.CfqueuesAddr, cfg.AdminAddr, cfg.QueratorAddr = "memory:", app.Off, app.Off, app.Off, []string{"127.0.0.1:0"}
	a := app.New(cfg, app.Options{Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		<-a.Ready()
		fmt.Printf("--compare http://%s --compare-pid %d\n", a.Addr("querator"), os.Getpid())
	}()
	if err := a.Run(ctx); err != nil {
		return 1
	}
	return 0
}

// run calls the command and returns its exit code and output.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = bench.Main(args, &out, &errs)
	return code, out.String(), errs.String()
}

// measure runs loads on a server that the command starts, and decodes the
// JSON. Runs are short; if the machine stood still meanwhile, longer ones follow.
func measure(t *testing.T, args ...string) (results []map[string]any) {
	t.Helper()
	for _, seconds := range []string{"0.15", "3"} {
		flags := []string{"--spawn", "--json", "--runs", "1", "--seconds", seconds, "--warmup", "20ms", "--scratch", t.TempDir()}
		code, stdout, stderr := run(t, append(flags, args...)...)
		require.Zero(t, code, stderr)
		results = nil
		require.NoError(t, json.Unmarshal([]byte(stdout), &results), stdout)
		if !slices.ContainsFunc(results, stood) {
			return results
		}
	}
	return results
}

// stood says whether nothing at all happened in a run or its floors.
func stood(r map[string]any) bool {
	for _, name := range []string{"floor_per_second", "durability_floor_per_second"} {
		if _, ok := r[name]; !ok && r["ratio"] != nil {
			return true
		}
	}
	return r["per_second"] == 0.0
}

func TestEveryLoadThroughEveryProtocol(t *testing.T) {
	loads := []string{"push:1x4", "push:10x2", "settle:1x4", "settle:10x2", "fail:1x4", "fail:10x2", "both:1x2", "both:10x2"}
	for _, protocol := range []string{"queen", "querator", "cfqueues"} {
		t.Run(protocol, func(t *testing.T) {
			results := measure(t, "--protocol", protocol, "--loads", strings.Join(loads, ","), "--backlog", "2000")
			require.Len(t, results, len(loads))
			for i, r := range results {
				require.Equal(t, loads[i], r["load"])
				require.Equal(t, protocol, r["protocol"])
				require.Zero(t, r["failures"], r)
				for _, name := range []string{"per_second", "floor_per_second", "ratio", "p50_ms", "p99_ms", "durability_floor_per_second", "rss_bytes"} {
					require.Greater(t, r[name], 0.0, "%s of %v", name, r)
				}
				require.GreaterOrEqual(t, r["p99_ms"], r["p50_ms"])
			}
		})
	}
}

func TestGroupsEachGetEveryMessage(t *testing.T) {
	r := measure(t, "--loads", "settle:10x4", "--groups", "2", "--backlog", "1000", "--partitions", "4", "--no-floors")[0]
	require.Zero(t, r["failures"])
	require.Greater(t, r["per_second"], 0.0)
	require.NotContains(t, r, "ratio")
}

func TestQueuesAreVisitedInTurn(t *testing.T) {
	for _, protocol := range []string{"queen", "querator", "cfqueues"} {
		for _, queues := range []string{"2", "12"} {
			for _, r := range measure(t, "--protocol", protocol, "--loads", "settle:1x4,both:10x4", "--backlog", "600", "--queues", queues, "--no-floors") {
				require.Zero(t, r["failures"], r)
				require.Greater(t, r["per_second"], 0.0)
			}
		}
	}
}

func TestRateIsNotExceeded(t *testing.T) {
	r := measure(t, "--loads", "push:10x4", "--rate", "500", "--seconds", "0.5", "--store", "memory:")[0]
	require.Zero(t, r["failures"], r)
	require.LessOrEqual(t, r["per_second"], 500.0, r)
	require.LessOrEqual(t, r["floor_per_second"], 500.0, r)
}

func TestCompareTakesTurns(t *testing.T) {
	r := measure(t, "--loads", "push:10x2", "--no-floors", "--store", "memory:", "--compare", other(t))[0]
	require.Greater(t, r["compare_per_second"], 0.0)
	require.InDelta(t, r["per_second"].(float64)/r["compare_per_second"].(float64), r["compare_ratio"], 1e-6)
}

func TestTransactionIDsAreAllNew(t *testing.T) {
	r := measure(t, "--loads", "push:10x4", "--ids", "--no-floors")[0]
	require.Zero(t, r["failures"], "a repeated id is answered as a duplicate, which is a failure here")
}

func TestTableNamesWhatWasMeasured(t *testing.T) {
	code, stdout, stderr := run(t, "--spawn", "--store", "memory:", "--loads", "push:10x2", "--runs", "2", "--seconds", "0.1", "--warmup", "10ms")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "of floor")
	require.Contains(t, stdout, "push:10x2")
	require.Contains(t, stderr, "round 2 of 2")
}

func TestWrongUse(t *testing.T) {
	for name, args := range map[string][]string{
		"no server":         {"--loads", "push:1x1"},
		"two servers":       {"--url", "http://127.0.0.1:1", "--spawn"},
		"unknown protocol":  {"--spawn", "--protocol", "amqp"},
		"unknown load":      {"--spawn", "--loads", "pull:1x1"},
		"load of nothing":   {"--spawn", "--loads", "push:0x1"},
		"batch too large":   {"--spawn", "--protocol", "cfqueues", "--loads", "push:101x1"},
		"groups":            {"--spawn", "--protocol", "querator", "--groups", "2"},
		"no rounds":         {"--spawn", "--runs", "0"},
		"header":            {"--spawn", "--header", "token"},
		"URL with a path":   {"--url", "http://127.0.0.1:1/api"},
		"URL with TLS":      {"--url", "https://127.0.0.1:1"},
		"protobuf to Queen": {"--spawn", "--encoding", "protobuf", "--no-floors"},
		"restart":           {"restart", "--messages", "1"},
		"parked":            {"parked", "--polls", "0"},
		"failing":           {"failing", "--messages", "1"},
		"failing batch":     {"failing", "--protocol", "cfqueues", "--batch", "101"},
		"bars":              {"bars", "--runs", "0"},
		"bars on memory":    {"bars", "--store", "memory:"},
		"gateways":          {"--spawn", "--gateways", "2"},
		"take by Querator":  {"--spawn", "--protocol", "querator", "--loads", "take:1x1"},
		"consumers alone":   {"--spawn", "--loads", "push:1x1+2"},
		"no consumers":      {"--spawn", "--loads", "both:1x1+0"},
		"unknown driver":    {"--spawn", "--driver", "threads"},
		"no such bar":       {"bars", "--only", "nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, args...)
			require.Equal(t, 2, code, stderr)
			require.Empty(t, stdout)
			require.NotEmpty(t, stderr)
		})
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	code, _, stderr := run(t, "--url", "http://127.0.0.1:1", "--loads", "push:1x1")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "127.0.0.1:1")
}

func TestServerThatDoesNotStart(t *testing.T) {
	code, _, stderr := run(t, "--spawn", "--store", "redis://x", "--loads", "push:1x1")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "start server")
}

func TestRestart(t *testing.T) {
	code, stdout, stderr := run(t, "restart", "--messages", "2000", "--partitions", "20", "--clients", "8", "--runs", "2", "--idle", "50ms", "--json", "--scratch", t.TempDir())
	require.Zero(t, code, stderr)
	var r map[string]float64
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Greater(t, r["ready_seconds"], 0.0)
	require.Greater(t, r["store_bytes"], 2000*100.0)
	require.Greater(t, r["rss_touched_bytes"], 0.0)
}

func TestFailing(t *testing.T) {
	for _, protocol := range []string{"querator", "cfqueues"} {
		code, stdout, stderr := run(t, "failing", "--protocol", protocol, "--messages", "2000", "--clients", "8", "--seconds", "0.3", "--json", "--scratch", t.TempDir())
		require.Zero(t, code, stderr)
		var r struct {
			Failed       float64
			WaitingAgain float64 `json:"waiting_again"`
			BatchRows    float64 `json:"batch_rows"`
			Ratio        float64 `json:"rows_per_message"`
		}
		require.NoError(t, json.Unmarshal([]byte(stdout), &r))
		require.Positive(t, r.Failed)
		require.Positive(t, r.WaitingAgain)
		require.LessOrEqual(t, r.WaitingAgain, 2000.0)
		require.Positive(t, r.BatchRows)
		require.InDelta(t, r.BatchRows/r.WaitingAgain, r.Ratio, 1e-9)
	}
}

// barLine is a line of the report.
type barLine struct {
	Bar             string
	Measured, Limit float64
	Reached         bool
}

// measureBars measures for a moment the bars whose name has a text in it.
func measureBars(t *testing.T, only string, args ...string) (lines []barLine) {
	t.Helper()
	flags := []string{"bars", "--only", only, "--runs", "1", "--seconds", "0.3", "--warmup", "50ms", "--backlog", "1000", "--json", "--scratch", t.TempDir()}
	code, stdout, stderr := run(t, append(flags, args...)...)
	require.NoError(t, json.Unmarshal([]byte(stdout), &lines), stderr)
	missed := slices.ContainsFunc(lines, func(l barLine) bool { return !l.Reached })
	require.Equal(t, missed, code == 1, "a bar that is missed is a failure")
	return lines
}

func TestBars(t *testing.T) {
	for _, only := range []string{"bytes written", "delay", "CPU with 100 partitions, of 1, push", "rows per message"} {
		lines := measureBars(t, only)
		require.Len(t, lines, 1)
		require.Contains(t, lines[0].Bar, only)
		require.Positive(t, lines[0].Measured)
		require.Positive(t, lines[0].Limit)
	}
	require.Len(t, measureBars(t, "bytes written", "--only", "delay"), 2)
}

func TestBarsBesideTheOriginal(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	lines := measureBars(t, "of the original", "--original", program)
	require.Len(t, lines, 8)
	for _, l := range lines {
		require.Positive(t, l.Measured, l.Bar)
	}
	code, _, stderr := run(t, "bars", "--only", "of the original", "--original", "/bin/true")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "--original")
}

func TestBarsOnPostgreSQL(t *testing.T) {
	url := testenv.Postgres(t)
	for only, n := range map[string]int{"messages per second": 7, "at 200/s": 4, "two gateways": 1, "of the database": 1, "of COPY": 1, "of unfused": 2, "rows per message": 1} {
		lines := measureBars(t, only, "--store", url)
		require.Len(t, lines, n)
		for _, l := range lines {
			if !strings.Contains(only, "database") || runtime.GOOS == "linux" {
				require.Positive(t, l.Measured, l.Bar)
			}
		}
	}
}

func TestEveryLoadOfTheDrivers(t *testing.T) {
	for _, driver := range []string{"auto", "goroutines"} {
		loads := []string{"push:1x4", "settle:10x2", "take:10x2", "both:10x2+3", "fail:1x4"}
		results := measure(t, "--driver", driver, "--loads", strings.Join(loads, ","), "--backlog", "2000")
		for i, r := range results {
			require.Equal(t, loads[i], r["load"])
			require.Zero(t, r["failures"], r)
			require.Greater(t, r["per_second"], 0.0)
			require.Greater(t, r["floor_per_second"], 0.0)
		}
	}
}

func TestFloorForOtherGenerators(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, "bench", "floor", "--listen", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	words := strings.Fields(lines.Text())
	require.Equal(t, "POST", words[0])
	require.True(t, lines.Scan())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, words[1], strings.NewReader(lines.Text()))
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	var pushed []map[string]any
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&pushed))
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusCreated, answer.StatusCode)
	require.Equal(t, "queued", pushed[0]["status"])
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}

func TestParked(t *testing.T) {
	code, stdout, stderr := run(t, "parked", "--polls", "60", "--queues", "6", "--idle", "100ms", "--wait", "300ms", "--json", "--scratch", t.TempDir())
	require.Zero(t, code, stderr)
	var r map[string]float64
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.InDelta(t, 10, r["pushed"], 0)
	require.InDelta(t, 10, r["woken"], 0)
	require.Zero(t, r["woken_wrongly"])
}
