package token_test

import (
	"context"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/internal/token"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/memory"
	"github.com/leasehold/leasehold/store/sqlite"
)

// stores are what the tests run over.
var stores = map[string]func(*testing.T) core.Store{
	"memory": func(*testing.T) core.Store { return memory.New() },
	"sqlite": func(t *testing.T) core.Store {
		t.Helper()
		s, err := sqlite.Open(context.WithoutCancel(t.Context()), t.TempDir(), sqlite.Options{})
		require.NoError(t, err)
		return s
	},
}

// rig is what a test works with.
type rig struct {
	t      *testing.T
	engine *core.Engine
	clock  *coretest.Clock
}

// each runs a test over every store, with a clock that it moves.
func each(t *testing.T, test func(r rig)) {
	t.Helper()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			clock, store := coretest.New(coretest.Start), open(t)
			engine, err := core.New(t.Context(), store, core.Options{Clock: clock})
			require.NoError(t, err)
			t.Cleanup(func() {
				assert.NoError(t, engine.Shutdown(context.WithoutCancel(t.Context())))
				assert.NoError(t, store.Close())
			})
			test(rig{t, engine, clock})
		})
	}
}

func TestTokenIsMadeFoundAndRevoked(t *testing.T) {
	each(t, func(r rig) {
		t, engine := r.t, r.engine
		k := token.NewKeeper(engine, "")
		on, err := k.Required(t.Context())
		require.NoError(t, err)
		assert.False(t, on, "nobody made a token yet")

		made, text, err := k.Create(t.Context(), token.New{Name: "ci", Email: "a@b.c", Read: true, Queues: []string{"jobs-*", "mail"}})
		require.NoError(t, err)
		assert.Regexp(t, "^lhd_[0-9A-Za-z]{36}$", text)
		assert.Regexp(t, "^[0-9a-f]{32}$", made.ID)
		on, err = k.Required(t.Context())
		require.NoError(t, err)
		assert.True(t, on, "the first token switches authentication on at once")

		found, err := k.Find(t.Context(), text)
		require.NoError(t, err)
		assert.Equal(t, made, found)
		assert.Equal(t, []string{"read"}, found.Permissions())
		for _, wrong := range []string{"", text[1:], text + "x", strings.ToLower(text), made.ID, strings.Repeat("x", 100_000)} {
			found, err := k.Find(t.Context(), wrong)
			require.NoError(t, err)
			assert.Nil(t, found, wrong)
		}
		list, err := k.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []token.Token{*made}, list)

		gone, err := k.Revoke(t.Context(), made.ID[:12])
		require.NoError(t, err)
		assert.Equal(t, made, gone)
		found, err = k.Find(t.Context(), text)
		require.NoError(t, err)
		assert.Nil(t, found, "it ends at once")
		_, err = k.Revoke(t.Context(), made.ID)
		require.ErrorIs(t, err, token.ErrUnknown)
		on, err = k.Required(t.Context())
		require.NoError(t, err)
		assert.True(t, on, "revoking the last token opens nothing")
	})
}

func TestTextIsNotStored(t *testing.T) {
	each(t, func(r rig) {
		t, engine := r.t, r.engine
		k := token.NewKeeper(engine, "")
		_, text, err := k.Create(t.Context(), token.New{Name: "ci"})
		require.NoError(t, err)
		for _, kind := range []string{"token", "token.switch"} {
			records, err := engine.ListRecords(t.Context(), core.ListRecordsParams{Kind: kind, Limit: 10})
			require.NoError(t, err)
			require.Len(t, records, 1)
			assert.NotContains(t, records[0].Name+string(records[0].Value), text[4:])
		}
	})
}

func TestTokenEnds(t *testing.T) {
	each(t, func(r rig) {
		t, engine, clock := r.t, r.engine, r.clock
		k := token.NewKeeper(engine, "")
		_, text, err := k.Create(t.Context(), token.New{Name: "short", ExpiresAt: clock.Now().Std().Add(time.Second)})
		require.NoError(t, err)
		found, err := k.Find(t.Context(), text)
		require.NoError(t, err)
		assert.NotNil(t, found)
		clock.Advance(time.Second)
		found, err = k.Find(t.Context(), text)
		require.NoError(t, err)
		assert.Nil(t, found, "on the millisecond, although it was looked up before")
		list, err := k.List(t.Context())
		require.NoError(t, err)
		assert.Len(t, list, 1, "it is still listed")
	})
}

// Two servers of one store learn of each other's tokens within seconds.
func TestTokensOfAnotherServer(t *testing.T) {
	each(t, func(r rig) {
		t, engine, clock := r.t, r.engine, r.clock
		here, there := token.NewKeeper(engine, ""), token.NewKeeper(engine, "")
		on, err := there.Required(t.Context())
		require.NoError(t, err)
		require.False(t, on)
		made, text, err := here.Create(t.Context(), token.New{Name: "ci"})
		require.NoError(t, err)
		clock.Advance(5 * time.Second)
		on, err = there.Required(t.Context())
		require.NoError(t, err)
		assert.True(t, on)
		found, err := there.Find(t.Context(), text)
		require.NoError(t, err)
		assert.Equal(t, made, found)
		_, err = here.Revoke(t.Context(), made.ID)
		require.NoError(t, err)
		clock.Advance(5 * time.Second)
		found, err = there.Find(t.Context(), text)
		require.NoError(t, err)
		assert.Nil(t, found)
	})
}

func TestTokenOfTheConfiguration(t *testing.T) {
	each(t, func(r rig) {
		t, engine := r.t, r.engine
		k := token.NewKeeper(engine, "from-the-environment-0123")
		on, err := k.Required(t.Context())
		require.NoError(t, err)
		assert.True(t, on)
		found, err := k.Find(t.Context(), "from-the-environment-0123")
		require.NoError(t, err)
		require.NotNil(t, found)
		assert.True(t, found.Read && found.Write && found.Everywhere())
		_, err = k.Revoke(t.Context(), found.ID)
		require.ErrorIs(t, err, token.ErrUnknown)
		list, err := k.List(t.Context())
		require.NoError(t, err)
		assert.Empty(t, list)
	})
}

func TestTokenThatExistsElsewhereIsTakenOver(t *testing.T) {
	each(t, func(r rig) {
		t, engine := r.t, r.engine
		k := token.NewKeeper(engine, "")
		const text = "Sn3lZJTBX6kkg7OdcBUAxOO963GEIyGQqnFTOFYY"
		made, got, err := k.Create(t.Context(), token.New{Name: "old", Text: text})
		require.NoError(t, err)
		assert.Equal(t, text, got)
		found, err := k.Find(t.Context(), text)
		require.NoError(t, err)
		assert.Equal(t, made, found)
		_, _, err = k.Create(t.Context(), token.New{Name: "again", Text: text})
		assert.Equal(t, core.CodeConflict, core.CodeOf(err))
	})
}

func TestWhatIsWrongWithATokenIsSaid(t *testing.T) {
	each(t, func(r rig) {
		t, engine, clock := r.t, r.engine, r.clock
		k := token.NewKeeper(engine, "")
		for want, n := range map[string]token.New{
			"a name of 1 to 120 bytes": {Name: " "},
			"not an email address":     {Name: "a", Email: "nobody"},
			"cannot end in the past":   {Name: "a", ExpiresAt: clock.Now().Std()},
			"visible ASCII":            {Name: "a", Text: "too short"},
			"a pattern of queue names": {Name: "a", Queues: []string{"a", ""}},
			"at most 100 patterns":     {Name: "a", Queues: make([]string, 101)},
		} {
			_, _, err := k.Create(t.Context(), n)
			require.ErrorContains(t, err, want)
			assert.Equal(t, core.CodeInvalid, core.CodeOf(err))
		}
		on, err := k.Required(t.Context())
		require.NoError(t, err)
		assert.False(t, on, "nothing was made")
	})
}

func TestParsePermissions(t *testing.T) {
	for _, c := range []struct {
		names       []string
		read, write bool
		err         string
	}{
		{nil, true, true, ""},
		{[]string{"read"}, true, false, ""},
		{[]string{"write"}, false, true, ""},
		{[]string{"write", "read"}, true, true, ""},
		{[]string{"admin"}, false, false, `unknown permission "admin"`},
	} {
		read, write, err := token.ParsePermissions(c.names)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, [2]bool{c.read, c.write}, [2]bool{read, write})
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true},
		{"*", "a/b", true},
		{"", "", true},
		{"", "a", false},
		{"jobs", "jobs", true},
		{"jobs", "jobs2", false},
		{"jobs-*", "jobs-", true},
		{"jobs-*", "jobs", false},
		{"*-dlq", "a-dlq-dlq", true},
		{"*a*b*", "xxaxxbxx", true},
		{"*a*b", "ab-ab-a", false},
		{"j?bs", "jobs", true},
		{"j?bs", "jbs", false},
		{"a*b*c", "abbbbc", true},
		{"[a]", "a", false},
		{"**", "x", true},
		{"Orders/*", "Orders/2026", true},
	} {
		assert.Equal(t, c.want, token.Match(c.pattern, c.name), "%q %q", c.pattern, c.name)
	}
}

// FuzzMatch compares with the standard library where both mean the same.
func FuzzMatch(f *testing.F) {
	f.Add("a*b?", "aab0")
	f.Add("*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaa")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		got := token.Match(pattern, name)
		if strings.ContainsAny(pattern+name, `[]\/`) || strings.ContainsFunc(pattern+name, func(r rune) bool { return r >= 0x80 }) {
			return
		}
		want, err := path.Match(pattern, name)
		require.NoError(t, err)
		require.Equal(t, want, got, "%q %q", pattern, name)
	})
}
