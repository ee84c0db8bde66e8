package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"
)

// tokenCmd is "leasehold token". It talks to a running server, which holds the
// store, through its admin listener.
type tokenCmd struct {
	AdminURL string `default:"http://127.0.0.1:8400" env:"LEASEHOLD_ADMIN_URL" help:"Admin listener of the server; LEASEHOLD_ADMIN_TOKEN is sent where it is set. Default: ${default}." placeholder:"URL"`
	JSON     bool   `help:"Print JSON."`

	Create tokenCreate `cmd:"" help:"Make a token and print it; it cannot be shown again. The first one makes the Cloudflare Queues listener ask for tokens, for good."`
	List   struct{}    `cmd:"" help:"List the tokens."`
	Revoke tokenRevoke `cmd:"" help:"End a token at once."`
}

type tokenCreate struct {
	Name    string   `arg:"" help:"What the token is for, shown in lists."`
	Read    bool     `help:"Allow looking at queues and messages. Default, without --write: both."`
	Write   bool     `help:"Allow everything, pulls and acknowledgements included."`
	Queue   []string `help:"Name of a queue that the token is for, with * for anything and ? for any one character; may be repeated. Default: every queue." placeholder:"PATTERN" sep:"none"`
	Expires string   `help:"When the token ends: a time from now such as 12h or 90d, or an RFC 3339 time. Default: never." placeholder:"TIME"`
	Email   string   `help:"Email that must come with the token where it is sent as X-Auth-Key. Default: any." placeholder:"MAIL"`
	From    string   `help:"File with a token that exists already, - for standard input, so that clients need not change theirs." placeholder:"FILE"`
}

type tokenRevoke struct {
	ID string `arg:"" help:"Id of the token, or at least 8 digits of its beginning."`
}

// requestTimeout bounds a request of a command to the server.
const requestTimeout = 30 * time.Second

// tokenMain runs "leasehold token" and returns the exit code.
func tokenMain(args []string, stdout, stderr io.Writer) int {
	var t tokenCmd
	parser, err := kong.New(&t, kong.Name("leasehold token"), kong.Description("Make, list and revoke tokens of a running server."),
		kong.Writers(stdout, stderr), kong.Exit(func(n int) { panic(exit(n)) }), kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err == nil {
		var kctx *kong.Context
		if kctx, err = parser.Parse(args); err == nil {
			command, _, _ := strings.Cut(kctx.Command(), " ")
			ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
			defer cancel()
			if err := t.run(ctx, command, stdout, stderr); err != nil {
				_, _ = fmt.Fprintln(stderr, "leasehold:", err)
				return exitFailed
			}
			return exitOK
		}
	}
	_, _ = fmt.Fprintln(stderr, "leasehold:", err)
	return exitUsage
}

// tokenInfo is a token as the admin listener shows it.
type tokenInfo struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Permissions []string   `json:"permissions"`
	Queues      []string   `json:"queues"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at"`
	Expired     bool       `json:"expired"`
	Token       string     `json:"token"`
}

func (t *tokenCmd) run(ctx context.Context, command string, stdout, stderr io.Writer) error {
	switch command {
	case "create":
		return t.create(ctx, stdout, stderr)
	case "list":
		return t.list(ctx, stdout)
	default:
		raw, err := t.call(ctx, http.MethodDelete, "/tokens/"+url.PathEscape(t.Revoke.ID), nil)
		if err != nil || t.JSON {
			return printJSON(stdout, raw, err)
		}
		var info tokenInfo
		if err := json.Unmarshal(raw, &info); err != nil {
			return err
		}
		_, err = fmt.Fprintf(stdout, "revoked %s (%s)\n", info.ID, info.Name)
		return err
	}
}

// create prints the token alone on stdout, so that a script can keep it, and
// what else there is to know on stderr.
func (t *tokenCmd) create(ctx context.Context, stdout, stderr io.Writer) error {
	body := map[string]any{"name": t.Create.Name, "queues": t.Create.Queue, "email": t.Create.Email}
	permissions := []string{}
	if t.Create.Read {
		permissions = append(permissions, "read")
	}
	if t.Create.Write {
		permissions = append(permissions, "write")
	}
	body["permissions"] = permissions
	if t.Create.Expires != "" {
		at, err := expiry(t.Create.Expires, time.Now())
		if err != nil {
			return err
		}
		body["expires_at"] = at
	}
	if t.Create.From != "" {
		text, err := readToken(t.Create.From)
		if err != nil {
			return err
		}
		body["token"] = text
	}
	raw, err := t.call(ctx, http.MethodPost, "/tokens", body)
	if err != nil || t.JSON {
		return printJSON(stdout, raw, err)
	}
	var info tokenInfo
	if err := json.Unmarshal(raw, &info); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stderr, "Token %s (%s) may %s queues that match %s. It is shown this once:\n",
		info.ID, info.Name, strings.Join(info.Permissions, " and "), strings.Join(info.Queues, ", "))
	_, err = fmt.Fprintln(stdout, info.Token)
	return err
}

// readToken reads the text of a token from a file or standard input.
func readToken(from string) (string, error) {
	in := io.Reader(os.Stdin)
	if from != "-" {
		f, err := os.Open(from)
		if err != nil {
			return "", fmt.Errorf("--from: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	// Far more than a token may be long.
	raw, err := io.ReadAll(io.LimitReader(in, 4096))
	if err != nil {
		return "", fmt.Errorf("--from: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	if text == "" {
		return "", errors.New("--from: there is no token in it")
	}
	return text, nil
}

// expiry reads a time from now, with d for days, or an RFC 3339 time.
func expiry(s string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n > 0 {
			return now.AddDate(0, 0, int(n)), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return now.Add(d), nil
	}
	return time.Time{}, fmt.Errorf("--expires: %q is neither a time from now (12h, 90d) nor an RFC 3339 time", s)
}

func (t *tokenCmd) list(ctx context.Context, stdout io.Writer) error {
	raw, err := t.call(ctx, http.MethodGet, "/tokens", nil)
	if err != nil || t.JSON {
		return printJSON(stdout, raw, err)
	}
	var answer struct {
		Required bool        `json:"required"`
		Tokens   []tokenInfo `json:"tokens"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return err
	}
	if len(answer.Tokens) == 0 {
		text := "There are no tokens, and none is asked for."
		if answer.Required {
			text = "There are no tokens in the store, but one is asked for."
		}
		_, err := fmt.Fprintln(stdout, text)
		return err
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ID\tNAME\tPERMISSIONS\tQUEUES\tCREATED\tEXPIRES")
	for i := range answer.Tokens {
		k := &answer.Tokens[i]
		end := "never"
		if k.ExpiresAt != nil {
			end = k.ExpiresAt.Format(time.DateTime)
		}
		if k.Expired {
			end += " (ended)"
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Name, strings.Join(k.Permissions, ","),
			strings.Join(k.Queues, ","), k.CreatedAt.Format(time.DateTime), end)
	}
	return table.Flush()
}

// printJSON prints an answer as it came, unless there is an error in its place.
func printJSON(stdout io.Writer, raw []byte, err error) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, strings.TrimSpace(string(raw)))
	return err
}

// call makes a request to the admin listener and returns the body of a success.
func (t *tokenCmd) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	var in bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&in).Encode(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(t.AdminURL, "/")+path, &in)
	if err != nil {
		return nil, fmt.Errorf("--admin-url: %w", err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if secret := os.Getenv(EnvAdminToken); secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("no server answers, is it running? %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return raw, nil
	}
	var refusal struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(raw, &refusal) != nil || refusal.Error == "" {
		refusal.Error = "the server answered " + resp.Status
	}
	if resp.StatusCode == http.StatusUnauthorized {
		refusal.Error += " in " + EnvAdminToken
	}
	return nil, errors.New(refusal.Error)
}
