package cfqueues_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
)

// The recorded sessions of testdata, replayed one after the other.
func TestRecordedClients(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { replay(t, file) })
	}
}

func replay(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	h := start(t, cfqueues.Options{})
	var ids struct {
		Queue    string `json:"queue_id"`
		Consumer string `json:"consumer_id"`
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		line = strings.NewReplacer("{A}", "023e105f4ecef8ad9ca31a8372d0c353", "{Q}", ids.Queue, "{C}", ids.Consumer).Replace(line)
		parts := strings.SplitN(line, " ", 4)
		require.GreaterOrEqual(t, len(parts), 3, line)
		body := strings.Join(parts[3:], "")
		a := h.send(parts[1], parts[2], body)
		assert.Equal(t, parts[0], strconv.Itoa(a.status), "%s: %s", line, a.raw)
		if parts[1] == "POST" && a.Success {
			// Members that a result does not have leave the ids as they are.
			require.NoError(t, json.Unmarshal(a.Result, &ids))
		}
	}
}
