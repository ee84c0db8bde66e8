package queen

import (
	"net/http"
	"strings"
)

// level is what a route asks of a token (protocol §5.4). The zero level is that of a path that the table does not list.
type level uint8

const (
	levelReadWrite level = iota
	levelReadOnly
	levelWriteOnly
	levelAdmin
	// levelPublic needs no token, whatever the skip list says.
	levelPublic
)

// role is a set of the four roles.
type role uint8

const (
	roleAdmin role = 1 << iota
	roleReadWrite
	roleReadOnly
	roleWriteOnly
)

// passes are the roles that each level lets through.
var passes = [...]role{
	levelReadWrite: roleAdmin | roleReadWrite,
	levelReadOnly:  roleAdmin | roleReadWrite | roleReadOnly,
	levelWriteOnly: roleAdmin | roleReadWrite | roleWriteOnly,
	levelAdmin:     roleAdmin,
}

// allows reports whether one of the roles passes.
func (l level) allows(roles role) bool { return l == levelPublic || passes[l]&roles != 0 }

// unlistedLevel is the level of a path without a route. What lies below the administrative prefixes stays with administrators, so that
// nobody else learns which of them exist; the paths of a login that is not there say so to everybody.
func unlistedLevel(path string) level {
	if strings.HasPrefix(path, "/auth/") {
		return levelPublic
	}
	if strings.HasPrefix(path, "/api/v1/system/") || strings.HasPrefix(path, "/internal/") {
		return levelAdmin
	}
	return levelReadWrite
}

// Roles are the words that stand for the roles in a token. An empty one is its default.
type Roles struct {
	// Claim names the claim that holds one role as a string, ArrayClaim the one that holds several. Either may hold either. Defaults: "role"
	// and "roles".
	Claim, ArrayClaim string
	// Admin, ReadWrite, ReadOnly and WriteOnly are the roles' names. Defaults: admin, read-write, read-only and write-only.
	Admin, ReadWrite, ReadOnly, WriteOnly string
}

// fill sets the defaults.
func (r *Roles) fill() {
	for _, d := range []struct {
		to  *string
		def string
	}{
		{&r.Claim, "role"},
		{&r.ArrayClaim, "roles"},
		{&r.Admin, "admin"},
		{&r.ReadWrite, "read-write"},
		{&r.ReadOnly, "read-only"},
		{&r.WriteOnly, "write-only"},
	} {
		if *d.to == "" {
			*d.to = d.def
		}
	}
}

// of collects the roles that verified claims name.
func (r *Roles) of(claims map[string]any) role {
	var out role
	for _, claim := range []string{r.Claim, r.ArrayClaim} {
		switch v := claims[claim].(type) {
		case string:
			out |= r.named(v)
		case []any:
			for _, one := range v {
				if name, ok := one.(string); ok {
					out |= r.named(name)
				}
			}
		}
	}
	return out
}

func (r *Roles) named(name string) role {
	switch name {
	case "":
		return 0
	case r.Admin:
		return roleAdmin
	case r.ReadWrite:
		return roleReadWrite
	case r.ReadOnly:
		return roleReadOnly
	case r.WriteOnly:
		return roleWriteOnly
	}
	return 0
}

// bearer takes the token out of the header. A bare token without the scheme's word is accepted.
func bearer(r *http.Request) (token, refusal string) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", "Authentication required"
	}
	if len(values) > 1 {
		return "", "Bad token header"
	}
	scheme, rest, found := strings.Cut(strings.TrimSpace(values[0]), " ")
	switch {
	case !found && (scheme == "" || strings.EqualFold(scheme, "bearer")):
		return "", "Authentication required"
	case !found:
		return scheme, ""
	case strings.EqualFold(scheme, "bearer"):
		return strings.TrimSpace(rest), ""
	}
	return "", "Authentication required"
}
