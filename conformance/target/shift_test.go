package target

import (
	"encoding/binary"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasehold/leasehold/core/coretest"
)

func TestShiftMovesTimesAndNothingElse(t *testing.T) {
	s := shift{days: 100}
	start := coretest.Start
	later := start.AddDate(0, 0, 100)
	millis := func(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }
	proto := func(at time.Time) string {
		return "\n\x06\x08" + string(binary.AppendUvarint(nil, uint64(at.Unix()))) + "rest" //nolint:gosec // after 1970
	}
	for name, pair := range map[string][2]string{
		"date":          {`{"at":"2026-01-02T03:04:05.000001Z"}`, `{"at":"2026-04-12T03:04:05.000001Z"}`},
		"zone":          {`2026-01-02T03:04:05+02:00`, `2026-04-12T03:04:05+02:00`},
		"several":       {`2026-01-02T00 2026-03-01T00`, `2026-04-12T00 2026-06-09T00`},
		"milliseconds":  {`{"timestamp_ms":` + millis(start) + `}`, `{"timestamp_ms":` + millis(later) + `}`},
		"protobuf":      {proto(start), proto(later)},
		"far away":      {`1999-01-02T03:04:05Z 2099-01-02T03`, `1999-01-02T03:04:05Z 2099-01-02T03`},
		"no day":        {`2026-13-77T03`, `2026-13-77T03`},
		"longer number": {`99` + millis(start), `99` + millis(start)},
		"nothing":       {"", ""},
	} {
		assert.Equal(t, pair[1], string(s.toServer([]byte(pair[0]))), name)
		assert.Equal(t, pair[0], string(s.toTest([]byte(pair[1]))), name)
		assert.Len(t, pair[1], len(pair[0]), name)
		assert.Equal(t, pair[0], string(shift{}.toServer([]byte(pair[0]))), name)
	}
}
