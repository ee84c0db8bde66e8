package cfqueues_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
)

type extended struct {
	ExtendCount *int
	Warnings    map[string]string
}

// is checks the counts of an extension.
func (x extended) is(t *testing.T, count, warnings int) {
	t.Helper()
	assert.Equal(t, count, *x.ExtendCount)
	assert.Len(t, x.Warnings, warnings)
}

// extend extends leases, with more members for the body.
func (h *harness) extend(path, members string, leases ...string) extended {
	h.t.Helper()
	list := make([]string, len(leases))
	for i, l := range leases {
		list[i] = fmt.Sprintf(`{"lease_id":%q}`, l)
	}
	body := `"extend":[` + strings.Join(list, ",") + `]`
	if members != "" {
		body += "," + members
	}
	var x extended
	h.ok("POST", path+"/messages/extend", "{"+body+"}", &x)
	require.NotNil(h.t, x.ExtendCount)
	require.NotNil(h.t, x.Warnings)
	return x
}

// A job that takes longer than its lease keeps it with a heartbeat, under the lease id
// that it has.
func TestExtendKeepsALease(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		path := h.make("jobs", `"visibility_timeout_ms":10000,"max_retries":5`)
		h.push(path, "long", "short")
		ms := h.pull(path, "")
		require.Len(t, ms, 2)
		for range 5 {
			h.clock.Advance(9 * time.Second)
			h.extend(path, `"visibility_timeout_ms":10000`, ms[0].LeaseID).is(t, 1, 0)
		}
		got := h.pull(path, "")
		require.Equal(t, []string{"short"}, bodies(got))
		assert.Equal(t, 2, got[0].Attempts)
		h.clock.Advance(5 * time.Second)
		h.ack(path, ms[0].LeaseID).is(t, 1, 0, 0)
		assert.EqualValues(t, 1, h.backlog(path).BacklogCount)
	})
}

func TestExtendCountsNoAttempt(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		path := h.make("jobs", `"visibility_timeout_ms":10000`)
		h.push(path, "a")
		m := h.one(path)
		h.extend(path, "", m.LeaseID, m.LeaseID).is(t, 2, 0)
		h.clock.Advance(9999 * time.Millisecond)
		assert.Empty(t, h.pull(path, ""), "the consumer's timeout is the default")
		h.clock.Advance(time.Millisecond)
		assert.Equal(t, 2, h.one(path).Attempts)
	})
}

func TestExtendCanShorten(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		path := h.make("jobs", "")
		h.push(path, "a")
		m := h.one(path)
		h.extend(path, `"visibility_timeout_ms":0`, m.LeaseID).is(t, 1, 0)
		h.clock.Advance(time.Millisecond)
		assert.Equal(t, []string{"a"}, bodies(h.pull(path, "")))
	})
}

// What a lease no longer holds cannot be extended; it is a warning and no failure.
func TestExtendOfALeaseThatIsOver(t *testing.T) {
	each(t, cfqueues.Options{}, func(h *harness) {
		t := h.test
		path, other := h.make("jobs", `"visibility_timeout_ms":10000`), h.make("other", "")
		h.push(path, "a", "b", "c")
		ms := h.pull(path, "")
		h.ack(path, ms[1].LeaseID)
		h.retry(path, nil, ms[2].LeaseID)
		x := h.extend(path, "", ms[0].LeaseID, ms[1].LeaseID, ms[2].LeaseID, "garbage")
		x.is(t, 1, 3)
		assert.Equal(t, "message no longer exists", x.Warnings[ms[1].LeaseID])
		assert.Contains(t, x.Warnings[ms[2].LeaseID], "lease is over")
		assert.Equal(t, "lease id is not valid for this queue", x.Warnings["garbage"])
		h.extend(other, "", ms[0].LeaseID).is(t, 0, 1)
		h.clock.Advance(10 * time.Second)
		h.extend(path, "", ms[0].LeaseID).is(t, 0, 1)
		again := h.pull(path, "")
		require.Len(t, again, 2)
		h.extend(path, `"visibility_timeout_ms":43200000`, ms[0].LeaseID).is(t, 0, 1)
		h.clock.Advance(10 * time.Second)
		assert.Len(t, h.pull(path, ""), 2, "the second lease ended when it was due")
	})
}

func TestExtendBodies(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	h.push(path, "a")
	m := h.one(path)
	for _, body := range []string{"", "{}", `{"extend":null}`, `{"extend":[],"visibility_timeout_ms":null}`} {
		var x extended
		h.ok("POST", path+"/messages/extend", body, &x)
		x.is(t, 0, 0)
	}
	a := h.ok("POST", path+"/messages/extend", fmt.Sprintf(`{"visibility_timeout":60000,"extend":[{"lease_id":%q}]}`, m.LeaseID), nil)
	require.Len(t, a.Messages, 1)
	assert.Contains(t, a.Messages[0], `"visibility_timeout" was read as "visibility_timeout_ms"`)
	h.clock.Advance(59 * time.Second)
	assert.Empty(t, h.pull(path, ""))
	for _, body := range []string{
		`[]`, `{"extend":{}}`, `{"extend":[{}]}`, `{"extend":[{"lease_id":1}]}`, `{"extend":[],"visibility_timeout_ms":43200001}`,
		`{"extend":[],"visibility_timeout_ms":-1}`, `{"extend":[],"visibility_timeout_ms":0.5}`, `{"extend":[],"visibility_timeout":"1"}`,
	} {
		h.refused("POST", path+"/messages/extend", body, 400, 10207)
	}
	h.refused("POST", path+"/messages/extend", `{"extend"`, 400, 10208)
	h.refused("POST", "/queues/none/messages/extend", ``, 404, 10104)
}
