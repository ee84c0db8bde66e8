package cfqueues

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPreferredWait(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"wait=5": 5 * time.Second, `respond-async, Wait = "7" ; x=1`: 7 * time.Second, "wait=0": 0, "a=wait,wait=1": time.Second,
	} {
		got, ok := preferredWait(http.Header{"Prefer": {"", header}})
		require.True(t, ok, header)
		assert.Equal(t, want, got, header)
	}
	for _, header := range []string{"", "wait", "wait=", "wait=-1", "wait=1.5", "waiting=5", "x;wait=5", "wait=2147483648", "=5"} {
		_, ok := preferredWait(http.Header{"Prefer": {header}})
		assert.False(t, ok, header)
	}
}

// FuzzPreferredWait reads any header: what is no number of seconds is no preference.
func FuzzPreferredWait(f *testing.F) {
	for _, s := range []string{"wait=5", "wait=-1", "a, wait = 3;b=c", "wait", "=", ",", "wait=99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		d, ok := preferredWait(http.Header{"Prefer": {header}})
		require.GreaterOrEqual(t, d, time.Duration(0))
		require.Zero(t, d%time.Second)
		require.True(t, ok || d == 0)
	})
}
