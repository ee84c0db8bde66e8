package cfqueues_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
)

const subscriptions = "/event_subscriptions/subscriptions"

// subscription is an event subscription as the tests read it.
type subscription struct {
	ID, Name    string
	Enabled     bool
	Events      []string
	Source      json.RawMessage
	Destination struct {
		Type    string
		QueueID string `json:"queue_id"`
	}
	CreatedAt  time.Time `json:"created_at"`
	ModifiedAt time.Time `json:"modified_at"`
}

func TestSubscriptionsAreRefused(t *testing.T) {
	h := start(t, cfqueues.Options{})
	var q queue
	h.ok("POST", "/queues", `{"queue_name":"jobs"}`, &q)
	a := h.refused("POST", subscriptions, fmt.Sprintf(`{"name":"s","source":{"type":"r2"},"destination":{"type":"queues.queue","queue_id":%q}}`, q.QueueID), 400, 11020)
	assert.Equal(t, "event subscriptions are not supported", a.Errors[0].Message)
	var list []subscription
	a = h.ok("GET", subscriptions+"?queue_id="+q.QueueID+"&page=1&per_page=20", "", &list)
	assert.Empty(t, list)
	assert.NotNil(t, list)
	require.NotNil(t, a.ResultInfo)
	assert.Contains(t, a.raw, `"result_info":{"count":0,"page":1,"per_page":20,"total_count":0,"total_pages":0}`)
	for _, method := range []string{"GET", "PATCH", "DELETE"} {
		h.refused(method, subscriptions+"/"+fixedID, "{}", 404, 11020)
	}
}

func TestSubscriptionsAreStoredWhereSwitchedOn(t *testing.T) {
	each(t, cfqueues.Options{InertSubscriptions: true}, func(h *harness) {
		t := h.test
		var q, other queue
		h.ok("POST", "/queues", `{"queue_name":"jobs"}`, &q)
		h.ok("POST", "/queues", `{"queue_name":"other"}`, &other)
		create := func(name, source, queue string) (s subscription) {
			h.ok("POST", subscriptions, fmt.Sprintf(`{"name":%q,"enabled":true,"events":["object.create"],"source":%s,"destination":{"type":"queues.queue","queue_id":%q}}`, name, source, queue), &s)
			return s
		}
		a := create("b", `{ "type": "r2", "bucket_name": "<x>" }`, q.QueueID)
		assert.Regexp(t, "^[0-9a-f]{32}$", a.ID)
		assert.Equal(t, "queues.queue", a.Destination.Type)
		assert.Contains(t, h.ok("GET", subscriptions+"/"+a.ID, "", nil).raw, `"source":{"type":"r2","bucket_name":"<x>"}`)
		h.clock.Advance(time.Second)
		b := create("a", `{"type":"images"}`, other.QueueID)
		h.refused("POST", subscriptions, fmt.Sprintf(`{"source":{"type":"images"},"destination":{"queue_id":%q}}`, other.QueueID), 405, 11020)
		var got subscription
		h.ok("GET", subscriptions+"/"+a.ID, "", &got)
		assert.Equal(t, a, got)

		list := func(query string) string {
			var all []subscription
			h.ok("GET", subscriptions+query, "", &all)
			names := make([]string, len(all))
			for i := range all {
				names[i] = all[i].Name
			}
			return strings.Join(names, "")
		}
		assert.Equal(t, "ab", list(""), "by name")
		assert.Equal(t, "ba", list("?direction=desc"))
		assert.Equal(t, "ba", list("?order=created_at"))
		assert.Equal(t, "ba", list("?order=source&direction=desc"))
		assert.Equal(t, "b", list("?queue_id="+q.QueueID))
		assert.Equal(t, "b", list("?page=2&per_page=1"))
		for _, bad := range []string{"?order=x", "?direction=up", "?page=0", "?per_page=101"} {
			h.refused("GET", subscriptions+bad, "", 400, 10207)
		}
		h.ok("PATCH", subscriptions+"/"+b.ID, `{"enabled":false,"events":[],"name":"c"}`, &got)
		assert.False(t, got.Enabled)
		assert.Equal(t, "c", got.Name)
		assert.Empty(t, got.Events)
		assert.Equal(t, other.QueueID, got.Destination.QueueID)
		h.ok("DELETE", subscriptions+"/"+b.ID, "", &got)
		assert.Equal(t, b.ID, got.ID)
		h.refused("GET", subscriptions+"/"+b.ID, "", 404, 11020)
		assert.Equal(t, "b", list(""))
	})
}

func TestSubscriptionBodies(t *testing.T) {
	h := start(t, cfqueues.Options{InertSubscriptions: true})
	var q queue
	h.ok("POST", "/queues", `{"queue_name":"jobs"}`, &q)
	dest := fmt.Sprintf(`"destination":{"queue_id":%q}`, q.QueueID)
	for body, code := range map[string]int{
		``: 10208, `{`: 10208, `[]`: 10207, `{}`: 10207, `{` + dest + `}`: 10207, `{"source":{"type":"r2"}}`: 10207,
		`{"source":{},` + dest + `}`: 10207, `{"source":"r2",` + dest + `}`: 10207, `{"source":{"type":7},` + dest + `}`: 10207,
		`{"source":{"type":"r2"},"destination":{"type":"webhook","queue_id":"` + q.QueueID + `"}}`: 10207,
		`{"source":{"type":"r2"},"destination":{}}`:                                                10207,
		`{"source":{"type":"r2"},"events":{},` + dest + `}`:                                        10207, `{"source":{"type":"r2"},"events":[1],` + dest + `}`: 10207,
		`{"source":{"type":"r2"},"enabled":"x",` + dest + `}`: 10207,
	} {
		h.refused("POST", subscriptions, body, 400, code)
	}
	h.refused("POST", subscriptions, `{"source":{"type":"r2"},"destination":{"queue_id":"nope"}}`, 404, 11000)
	var list []subscription
	h.ok("GET", subscriptions, "", &list)
	assert.Empty(t, list)
}

func TestSubscriptionsOfATokenForSomeQueues(t *testing.T) {
	h := start(t, cfqueues.Options{InertSubscriptions: true})
	var mine, other queue
	h.ok("POST", "/queues", `{"queue_name":"team-a"}`, &mine)
	h.ok("POST", "/queues", `{"queue_name":"secret"}`, &other)
	body := func(q queue) string {
		return fmt.Sprintf(`{"name":%q,"source":{"type":"r2"},"destination":{"queue_id":%q}}`, q.QueueName, q.QueueID)
	}
	var hidden subscription
	h.ok("POST", subscriptions, body(other), &hidden)
	h.as(h.token(true, true, "team-*"))
	h.refused("POST", subscriptions, body(other), 403, 10000)
	h.ok("POST", subscriptions, body(mine), nil)
	h.refused("GET", subscriptions+"/"+hidden.ID, "", 403, 10000)
	h.refused("DELETE", subscriptions+"/"+hidden.ID, "", 403, 10000)
	var list []subscription
	h.ok("GET", subscriptions, "", &list)
	require.Len(t, list, 1)
	assert.Equal(t, "team-a", list[0].Name)
}
