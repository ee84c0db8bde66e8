package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store"
)

func TestOpenFindsThePlaceInTheURL(t *testing.T) {
	for name, c := range map[string]struct{ url, dir, at string }{
		"default":       {"", "data", "data"},
		"sqlite":        {"sqlite:other", "data", "other"},
		"sqlite slash":  {"sqlite://other", "data", "other"},
		"bare relative": {"other/deep", "data", "other/deep"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			s, err := store.Open(t.Context(), c.url, store.Options{Dir: c.dir})
			require.NoError(t, err)
			assert.DirExists(t, c.at)
			require.NoError(t, s.Close())
			files, err := filepath.Glob(filepath.Join(c.at, "*"))
			require.NoError(t, err)
			assert.NotEmpty(t, files)
			if c.at != c.dir {
				assert.NoDirExists(t, c.dir)
			}
		})
	}
	t.Run("absolute", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "a")
		s, err := store.Open(t.Context(), "sqlite:"+dir, store.Options{Dir: "unused"})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		assert.DirExists(t, dir)
	})
}

func TestOpenMemory(t *testing.T) {
	t.Chdir(t.TempDir())
	s, err := store.Open(t.Context(), "memory:", store.Options{Dir: "data"})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	assert.NoDirExists(t, "data")
}

func TestOpenRefusesWhatItCannotOpen(t *testing.T) {
	for url, code := range map[string]core.Code{
		"postgres://u:hush@127.0.0.1:1/d":   core.CodeUnavailable,
		"postgresql://u:hush@127.0.0.1:1/d": core.CodeUnavailable,
		"postgres://u:hush@h:port/d":        core.CodeInvalid,
		"mysql://u:hush@h/d":                core.CodeInvalid,
		"sqlite:":                           core.CodeInvalid,
		"sqlite://":                         core.CodeInvalid,
	} {
		_, err := store.Open(t.Context(), url, store.Options{Dir: t.TempDir()})
		require.Error(t, err, url)
		assert.Equal(t, code, core.CodeOf(err), url)
		assert.NotContains(t, err.Error(), "hush")
	}
}

func TestOpenNamesTheDirectoryThatIsDamaged(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), "", store.Options{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	files, err := filepath.Glob(filepath.Join(dir, "*.db"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	damaged := bytes.Repeat([]byte("no database "), 1000)
	require.NoError(t, os.WriteFile(files[0], damaged, 0o600))

	_, err = store.Open(t.Context(), "", store.Options{Dir: dir})
	require.ErrorContains(t, err, dir)
	assert.Equal(t, core.CodeFormat, core.CodeOf(err), "%v", err)
	after, err := os.ReadFile(files[0])
	require.NoError(t, err)
	assert.True(t, bytes.Equal(damaged, after), "a file that is not ours stays as it is")
}
