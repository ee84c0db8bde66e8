package blackbox

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// undecodable is Querator's status for bodies that cannot be decoded.
const undecodable = 455

func (s *sweeper) queenRefusal() refusal {
	return refusal{
		base: s.c.Queen.Base, unreadable: http.StatusBadRequest,
		check: func(t *testing.T, request string, a Answer) {
			t.Helper()
			out := fields(t, request, a)
			assert.NotEmpty(t, out["error"], "%s: %s", request, a)
		},
		item: func(a Answer) bool {
			// Acknowledgements and transactions refuse inside a 200; deleting what is not there is
			// told by a flag.
			return bytes.Contains(a.Body, []byte(`"success":false`)) && !bytes.Contains(a.Body, []byte(`"success":true`)) ||
				bytes.Contains(a.Body, []byte(`"existed":false`))
		},
	}
}

func (s *sweeper) queratorRefusal() refusal {
	return refusal{
		base: s.c.Querator.Base, unreadable: undecodable,
		check: func(t *testing.T, request string, a Answer) {
			t.Helper()
			out := fields(t, request, a)
			assert.EqualValues(t, a.Status, out["code"], "%s: %s", request, a)
			assert.NotEmpty(t, out["code_text"], "%s: %s", request, a)
			assert.NotEmpty(t, out["message"], "%s: %s", request, a)
			assert.Len(t, out, 3, "%s: %s", request, a)
			assert.Equal(t, "nosniff", a.Header.Get("X-Content-Type-Options"))
		},
		item: func(Answer) bool { return false },
	}
}

func (s *sweeper) cfRefusal() refusal {
	return refusal{
		base: s.c.Cf.Base + "/client/v4/accounts/" + Account, unreadable: http.StatusBadRequest,
		check: func(t *testing.T, request string, a Answer) {
			t.Helper()
			out := fields(t, request, a)
			assert.Equal(t, false, out["success"], "%s: %s", request, a)
			assert.Equal(t, []any{}, out["messages"], "%s: %s", request, a)
			assert.Contains(t, out, "result")
			assert.Nil(t, out["result"], "%s: %s", request, a)
			errs, ok := out["errors"].([]any)
			require.True(t, ok, "%s: %s", request, a)
			require.Len(t, errs, 1, "%s: %s", request, a)
			first, ok := errs[0].(map[string]any)
			require.True(t, ok, "%s: %s", request, a)
			assert.IsType(t, 0.0, first["code"], "%s: %s", request, a)
			assert.NotEmpty(t, first["message"], "%s: %s", request, a)
			assert.Equal(t, "false", a.Header.Get("X-Should-Retry"), "%s: %s", request, a)
		},
		// An acknowledgement of what is not there is a warning.
		item: func(a Answer) bool {
			return bytes.Contains(a.Body, []byte(`"ackCount":0,"retryCount":0,"warnings":{"`))
		},
	}
}
