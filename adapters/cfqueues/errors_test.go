package cfqueues

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// What every code of the core looks like to a client: status, code, whether the
// official clients will send the request again.
func TestCodesOfTheCore(t *testing.T) {
	for code, want := range map[core.Code]struct {
		status, code int
		again        bool
	}{
		core.CodeInvalid:       {400, 10207, false},
		core.CodeTooLarge:      {413, 10204, false},
		core.CodeNoQueue:       {404, 11000, false},
		core.CodeNoConsumer:    {405, 0, false},
		core.CodePaused:        {409, 0, false},
		core.CodeOverloaded:    {429, 10250, true},
		core.CodeFull:          {429, 10251, true},
		core.CodeClosed:        {503, 15000, true},
		core.CodeConflict:      {503, 15000, true},
		core.CodeUnavailable:   {500, 15000, true},
		core.CodeUnknown:       {500, 15000, false},
		core.CodeReadOnly:      {500, 15000, false},
		core.CodeCanceled:      {400, 10201, false},
		core.CodeInternal:      {500, 15000, true},
		core.CodeUnimplemented: {500, 15000, true},
		core.CodeFormat:        {500, 15000, true},
	} {
		e := fromMessages(core.Errorf(code, "push", "the cause"))
		if code == core.CodeNoQueue {
			assert.Equal(t, 10104, e.code)
			e = fromCore(core.Errorf(code, "get queue", "the cause"))
		}
		assert.Equal(t, want.status, e.status, code)
		assert.Equal(t, want.code, e.code, code)
		assert.Equal(t, want.again, e.shouldRetry(), code)
		assert.NotEmpty(t, e.message)
		assert.Equal(t, code == core.CodeInvalid, strings.Contains(e.message, "the cause"), "%v shows its cause", code)
		passing := code == core.CodeClosed || code == core.CodeConflict || code == core.CodeUnavailable
		assert.Equal(t, passing || e.status == http.StatusTooManyRequests, e.retryAfter > 0, code)
	}
	e := fromCore(errors.New("a secret"))
	assert.Equal(t, "15000: UnknownInternalError", e.Error())
	require.EqualError(t, e.cause, "a secret")
}

func TestLongNamesAreCutInErrors(t *testing.T) {
	e := errQueueName(strings.Repeat("é", 5000))
	assert.Less(t, len(e.message), 400)
	w := httptest.NewRecorder()
	writeError(w, errNoRoute(clip("/"+strings.Repeat("\xff", 300))))
	assert.Less(t, w.Body.Len(), 1000)
}
