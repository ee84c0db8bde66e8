package target

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core/coretest"
)

// shift is by how many whole days the server's time is ahead of the test's.
//
// Every test begins at coretest.Start, and many know it by heart. A server that
// all tests share cannot go back there: its clock only moves forward. So each
// test begins at the next free day, and what passes between the two is shifted:
// dates and milliseconds near the test's time forward on the way to the server,
// those near the server's time back on the way to the test. Whole days change
// the date alone, and no text's length.
type shift struct{ days int }

const day = 24 * time.Hour

// How far around the beginning of a test a time is taken for one of the test's.
const (
	before = 31 * day
	after  = 5 * 365 * day
)

var (
	datePattern   = regexp.MustCompile(`\d{4}-\d\d-\d\dT`)
	millisPattern = regexp.MustCompile(`\b\d{13}\b`)
)

// secondsLength is how many bytes the seconds of a protobuf Timestamp take, until the year 3058. They follow the
// byte 0x08, which begins its first field.
const secondsLength = 5

// toServer shifts what a test sends.
func (s shift) toServer(text []byte) []byte { return s.move(text, coretest.Start, s.days) }

// toTest shifts what a server answers.
func (s shift) toTest(text []byte) []byte {
	return s.move(text, coretest.Start.Add(time.Duration(s.days)*day), -s.days)
}

func (s shift) move(text []byte, around time.Time, days int) []byte {
	if s.days == 0 {
		return text
	}
	if !bytes.ContainsAny(text, "123456789") && bytes.IndexByte(text, 0x08) < 0 {
		return text // most of a large body that means nothing
	}
	near := func(t time.Time) bool { return t.After(around.Add(-before)) && t.Before(around.Add(after)) }
	text = datePattern.ReplaceAllFunc(text, func(found []byte) []byte {
		t, err := time.Parse("2006-01-02T", string(found))
		if err != nil || !near(t) {
			return found
		}
		return []byte(t.AddDate(0, 0, days).Format("2006-01-02T"))
	})
	text = moveSeconds(text, near, days)
	return millisPattern.ReplaceAllFunc(text, func(found []byte) []byte {
		ms, err := strconv.ParseInt(string(found), 10, 64)
		if err != nil || !near(time.UnixMilli(ms)) {
			return found
		}
		return strconv.AppendInt(nil, ms+int64(days)*day.Milliseconds(), 10)
	})
}

// moveSeconds shifts the times in protobuf. No JSON text has the byte that begins one.
func moveSeconds(text []byte, near func(time.Time) bool, days int) []byte {
	for i := bytes.IndexByte(text, 0x08); i >= 0 && i+secondsLength < len(text); i++ {
		if text[i] != 0x08 {
			next := bytes.IndexByte(text[i:], 0x08)
			if next < 0 {
				break
			}
			i += next - 1
			continue
		}
		s, n := binary.Uvarint(text[i+1:])
		if n != secondsLength || s > 1<<35 || !near(time.Unix(int64(s), 0)) {
			continue
		}
		binary.PutUvarint(text[i+1:i+1+secondsLength], uint64(int64(s)+int64(days)*int64(day/time.Second))) //nolint:gosec // years from 1970
	}
	return text
}

// begin moves all replicas to the next free day, and stops their clocks there.
func (r *Remote) begin(tb testing.TB) {
	tb.Helper()
	if len(r.controls) == 0 {
		return
	}
	latest := coretest.Start
	for _, c := range r.controls {
		if now := r.now(tb, c); now.After(latest) {
			latest = now
		}
	}
	if gone := latest.Sub(coretest.Start); gone > 0 {
		r.shift.days = int(gone/day) + 2
	}
	r.freeze(tb, coretest.Start)
}

// now is the time of one replica.
func (r *Remote) now(tb testing.TB, control string) time.Time {
	tb.Helper()
	var got struct{ Now time.Time }
	text := r.call(tb, http.MethodPost, control+"/clock", `{"op":"advance","by":"0s"}`)
	require.NoError(tb, json.Unmarshal(text, &got), "%s", text)
	return got.Now
}

// freeze stops all replicas' clocks at a moment of the test.
func (r *Remote) freeze(tb testing.TB, at time.Time) {
	tb.Helper()
	at = at.AddDate(0, 0, r.shift.days).UTC()
	for _, c := range r.controls {
		r.call(tb, http.MethodPost, c+"/clock", fmt.Sprintf(`{"op":"freeze","now":%q}`, at.Format(time.RFC3339Nano)))
	}
}
