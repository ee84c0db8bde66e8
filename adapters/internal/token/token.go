package token

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/core"
)

// Token is what is known of a token. Its text is not.
type Token struct {
	// ID names the token in lists and for its revocation: 32 hex digits.
	ID string
	// Name is the operator's label, 1 to 120 bytes.
	Name string
	// Email is asked for beside a token that is sent as a key with an email; "" means
	// that any will do.
	Email string
	// Read allows looking, Write everything; a token that may write may read.
	Read, Write bool
	// Queues are patterns of names of queues, see [Match]; at least one.
	Queues []string
	// CreatedAt and ExpiresAt are the token's first and last moment; a zero ExpiresAt
	// is never.
	CreatedAt, ExpiresAt time.Time
}

// New is a token to be made.
type New struct {
	// Text is the token itself where it exists already, 24 to 256 visible ASCII
	// characters; "" lets the keeper make one.
	Text string
	// Name, Email, Read, Write, Queues and ExpiresAt are as in [Token]. No permission
	// means all of them, no pattern every queue.
	Name, Email string
	Read, Write bool
	Queues      []string
	ExpiresAt   time.Time
}

// The bounds of what describes a token.
const (
	maxName     = 120
	maxEmail    = 254
	maxPattern  = 512
	maxPatterns = 100
	minText     = 24
	maxText     = 256
)

// complete checks a token to be made and fills in what it leaves out. Its errors are
// CodeInvalid, worded for the operator.
func (n *New) complete(now time.Time) error {
	invalid := func(format string, args ...any) error { return core.Errorf(core.CodeInvalid, "", format, args...) }
	switch {
	case strings.TrimSpace(n.Name) == "" || len(n.Name) > maxName:
		return invalid("a token needs a name of 1 to %d bytes", maxName)
	case len(n.Email) > maxEmail || n.Email != "" && !strings.Contains(n.Email, "@"):
		return invalid("%q is not an email address", n.Email)
	case len(n.Queues) > maxPatterns:
		return invalid("a token may have at most %d patterns of queue names", maxPatterns)
	case !n.ExpiresAt.IsZero() && !n.ExpiresAt.After(now):
		return invalid("a token cannot end in the past")
	case n.Text != "" && !validText(n.Text):
		return invalid("a token's text must be %d to %d visible ASCII characters without spaces", minText, maxText)
	}
	for _, p := range n.Queues {
		if p == "" || len(p) > maxPattern {
			return invalid("a pattern of queue names must be 1 to %d bytes long", maxPattern)
		}
	}
	if len(n.Queues) == 0 {
		n.Queues = []string{"*"}
	}
	if !n.Read && !n.Write {
		n.Read, n.Write = true, true
	}
	return nil
}

// validText says whether a text can travel in a header as it is.
func validText(s string) bool {
	if len(s) < minText || len(s) > maxText {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Expired reports whether the token has ended at now.
func (t *Token) Expired(now time.Time) bool { return !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt) }

// Allows reports whether one of the token's patterns matches a queue's name.
func (t *Token) Allows(queue string) bool {
	return slices.ContainsFunc(t.Queues, func(p string) bool { return Match(p, queue) })
}

// Everywhere reports whether the token is for every queue there can be.
func (t *Token) Everywhere() bool { return slices.Contains(t.Queues, "*") }

// Permissions names what the token may do, for people and lists.
func (t *Token) Permissions() []string {
	out := []string{}
	if t.Read {
		out = append(out, "read")
	}
	if t.Write {
		out = append(out, "write")
	}
	return out
}

// ParsePermissions reads what [Token.Permissions] writes; an empty list is all of them.
func ParsePermissions(names []string) (read, write bool, err error) {
	for _, n := range names {
		switch n {
		case "read":
			read = true
		case "write":
			write = true
		default:
			return false, false, fmt.Errorf("unknown permission %q: want read or write", n)
		}
	}
	if len(names) == 0 {
		read, write = true, true
	}
	return read, write, nil
}

// Match reports whether a name matches a pattern, in which * stands for any run of
// bytes and ? for any one; everything else stands for itself.
func Match(pattern, name string) bool {
	// back is where to go on when the rest does not match: after the last *, one byte
	// further in the name. Going back to earlier stars is never needed.
	p, n, backP, backN := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			p++
			backP, backN = p, n
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p, n = p+1, n+1
		case backP >= 0:
			backN++
			p, n = backP, backN
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
