package cfqueues_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
)

func TestQueueIsCreatedWithDefaults(t *testing.T) {
	h := start(t, cfqueues.Options{})
	var made, got queue
	h.ok("POST", "/queues", `{"queue_name":"jobs"}`, &made)
	assert.Regexp(t, `^[0-9a-f]{32}$`, made.QueueID)
	assert.Equal(t, "jobs", made.QueueName)
	assert.Equal(t, "2026-01-02T03:04:05.000000Z", made.CreatedOn)
	assert.Equal(t, made.CreatedOn, made.ModifiedOn)
	assert.EqualValues(t, 0, *made.Settings.DeliveryDelay)
	assert.False(t, *made.Settings.DeliveryPaused)
	assert.EqualValues(t, 345600, *made.Settings.MessageRetentionPeriod)
	assert.NotNil(t, made.Producers)
	assert.NotNil(t, made.Consumers)
	assert.Zero(t, *made.ProducersTotalCount)
	assert.Zero(t, *made.ConsumersTotalCount)
	h.ok("GET", "/queues/"+made.QueueID, "", &got)
	assert.Equal(t, made, got)
}

func TestQueueIsCreatedWithSettings(t *testing.T) {
	h := start(t, cfqueues.Options{})
	var q queue
	h.ok("POST", "/queues", `{"queue_name":"jobs","settings":{"delivery_delay":5,"message_retention_period":3600.0,"delivery_paused":true}}`, &q)
	assert.EqualValues(t, 5, *q.Settings.DeliveryDelay)
	assert.True(t, *q.Settings.DeliveryPaused)
	assert.EqualValues(t, 3600, *q.Settings.MessageRetentionPeriod)
}

func TestQueueNamesAreUnique(t *testing.T) {
	h := start(t, cfqueues.Options{})
	h.ok("POST", "/queues", `{"queue_name":"jobs"}`, nil)
	a := h.refused("POST", "/queues", `{"queue_name":"jobs"}`, 400, 11009)
	assert.Equal(t, "Queue name 'jobs' is already taken. Please use a different name and try again.", a.Errors[0].Message)
	h.refused("POST", "/queues", `{"queue_name":"Jobs"}`, 400, 11003)
	h.refused("POST", "/queues", `{}`, 400, 11003)
	h.refused("POST", "/queues", `{"queue_name":"x","settings":{"delivery_delay":-1}}`, 400, 100128)
	var all []queue
	h.ok("GET", "/queues", "", &all)
	assert.Len(t, all, 1, "a refused creation leaves nothing behind")
}

func TestQueuesAreListedAndFiltered(t *testing.T) {
	h := start(t, cfqueues.Options{})
	var all []queue
	a := h.ok("GET", "/queues", "", &all)
	assert.Equal(t, "[]", string(a.Result))
	for i := range 45 {
		h.ok("POST", "/queues", fmt.Sprintf(`{"queue_name":"q%02d"}`, i), nil)
	}
	a = h.ok("GET", "/queues", "", &all)
	assert.Len(t, all, 45, "a list without page is everything")
	assert.Equal(t, 45, a.ResultInfo.TotalCount)
	assert.Equal(t, 1, a.ResultInfo.TotalPages)
	a = h.ok("GET", "/queues?page=3", "", &all)
	assert.Len(t, all, 5)
	assert.Equal(t, "q40", all[0].QueueName)
	assert.Equal(t, [5]int{5, 3, 20, 45, 3}, [5]int{
		a.ResultInfo.Count, a.ResultInfo.Page, a.ResultInfo.PerPage, a.ResultInfo.TotalCount, a.ResultInfo.TotalPages,
	})
	h.ok("GET", "/queues?page=9&per_page=10", "", &all)
	assert.Empty(t, all)
	h.ok("GET", "/queues?page=1&name=q07", "", &all)
	require.Len(t, all, 1)
	assert.Equal(t, "q07", all[0].QueueName)
	h.ok("GET", "/queues?name=q07&name=q09&name=q0", "", &all)
	assert.Len(t, all, 2)
	a = h.ok("GET", "/queues?page=1&name=nosuch", "", &all)
	assert.Equal(t, "[]", string(a.Result))
	for _, bad := range []string{"page=0", "page=-1", "page=x", "per_page=0", "page=99999999999999999999"} {
		h.refused("GET", "/queues?"+bad, "", 400, 10207)
	}
}

func TestQueueIsFoundByNameAndUnderEveryPath(t *testing.T) {
	h := start(t, cfqueues.Options{})
	var q, got queue
	h.ok("POST", "/queues", `{"queue_name":"jobs"}`, &q)
	for _, path := range []string{
		base + "/queues/jobs", base + "/queues/" + q.QueueID, "/accounts/other/queues/jobs", "//client/v4//accounts/x/queues//jobs/",
		"/accounts/x/queues/j%6Fbs",
	} {
		a := h.send("GET", path, "")
		require.Equal(t, 200, a.status, path)
		assert.Contains(t, a.raw, q.QueueID)
	}
	// A name of 32 hex digits is found although it looks like an id.
	name := strings.Repeat("0f", 16)
	h.ok("POST", "/queues", `{"queue_name":"`+name+`"}`, nil)
	h.ok("GET", "/queues/"+name, "", &got)
	assert.Equal(t, name, got.QueueName)
}

func TestUnknownQueue(t *testing.T) {
	h := start(t, cfqueues.Options{})
	for _, id := range []string{"023e105f4ecef8ad9ca31a8372d0c353", "nosuch", "a%2Fb", "%00", "%ff", strings.Repeat("x", 5000)} {
		h.refused("GET", "/queues/"+id, "", 404, 11000)
		h.refused("DELETE", "/queues/"+id, "", 404, 11000)
		h.refused("GET", "/queues/"+id+"/consumers", "", 404, 11000)
		h.refused("GET", "/queues/"+id+"/consumers/x", "", 404, 11000)
		h.refused("DELETE", "/queues/"+id+"/consumers/x", "", 404, 11000)
		h.refused("POST", "/queues/"+id+"/consumers", `{"type":"http_pull"}`, 404, 11000)
		h.refused("POST", "/queues/"+id+"/purge", `{"delete_messages_permanently":true}`, 404, 11000)
		h.refused("GET", "/queues/"+id+"/purge", "", 404, 11000)
		h.refused("GET", "/queues/"+id+"/metrics", "", 404, 11000)
		h.refused("POST", "/queues/"+id+"/messages", `{"body":1}`, 404, 10104)
		h.refused("POST", "/queues/"+id+"/messages/batch", `{"messages":[{"body":1}]}`, 404, 10104)
		h.refused("POST", "/queues/"+id+"/messages/pull", `{}`, 404, 10104)
		h.refused("POST", "/queues/"+id+"/messages/ack", `{}`, 404, 10104)
	}
}

func TestNoSuchRoute(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	for _, r := range [][2]string{
		{"GET", "/"},
		{"GET", "/client/v4"},
		{"POST", "/client/v4/accounts"},
		{"GET", "/accounts/a/b"},
		{"GET", "/user/tokens"},
		{"GET", "/graphql"},
		{"GET", base + "/workers/scripts"},
		{"PUT", base + "/event_notifications/r2/b/configuration" + path},
		{"PATCH", base + path + "/consumers/x"},
		{"GET", base + path + "/messages/peek"},
		{"PUT", base + "/event_subscriptions/subscriptions"},
		{"GET", base + path + "/messages"},
		{"DELETE", base + path + "/messages"},
		{"GET", base + path + "/pull"},
		{"POST", base + path},
		{"OPTIONS", base + path},
		{"GET", base + "/queues/a/b/c/d"},
		{"POST", base + "/queues/jobs%2Fmessages"},
		{"GET", base + "/../queues/jobs"},
		{"BREW", base + path},
	} {
		a := h.send(r[0], r[1], "{}")
		require.Equal(t, 404, a.status, "%v: %s", r, a.raw)
		assert.Equal(t, 7003, a.Errors[0].Code)
	}
}

func TestConsumerIsCompleteAndEffectiveAtOnce(t *testing.T) {
	h := start(t, cfqueues.Options{})
	var q queue
	h.ok("POST", "/queues", `{"queue_name":"jobs"}`, &q)
	path := "/queues/" + q.QueueID
	a := h.refused("POST", path+"/messages/pull", `{}`, 405, 0)
	assert.Equal(t, "messages cannot be pulled unless http_pull mode is enabled", a.Errors[0].Message)

	var c, got consumer
	h.ok("POST", path+"/consumers", `{"type":"http_pull","settings":{"max_retries":null}}`, &c)
	assert.Regexp(t, `^[0-9a-f]{32}$`, c.ConsumerID)
	assert.Equal(t, "http_pull", c.Type)
	assert.Equal(t, q.QueueID, c.QueueID)
	assert.Equal(t, "jobs", c.QueueName)
	assert.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), c.CreatedOn)
	require.NotNil(t, c.DeadLetterQueue)
	assert.Empty(t, *c.DeadLetterQueue)
	assert.Equal(t, map[string]float64{"batch_size": 5, "max_retries": 3, "retry_delay": 0, "visibility_timeout_ms": 30000}, c.Settings)
	assert.Empty(t, h.pull(path, ""))

	h.ok("GET", path+"/consumers/"+c.ConsumerID, "", &got)
	assert.Equal(t, c, got)
	var list []consumer
	h.ok("GET", path+"/consumers", "", &list)
	assert.Equal(t, []consumer{c}, list)
	h.ok("GET", path, "", &q)
	assert.Equal(t, []consumer{c}, q.Consumers)
	assert.Equal(t, 1, *q.ConsumersTotalCount)
	var all []queue
	h.ok("GET", "/queues?page=1&name=jobs", "", &all)
	assert.Equal(t, []consumer{c}, all[0].Consumers)
}

func TestOneConsumerPerQueue(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", `"batch_size":7`)
	var list []consumer
	h.ok("GET", path+"/consumers", "", &list)
	a := h.refused("POST", path+"/consumers", `{"type":"http_pull","dead_letter_queue":"never-made"}`, 400, 11004)
	assert.Contains(t, a.Errors[0].Message, "already has a consumer.")
	assert.Contains(t, a.Errors[0].Message, list[0].ConsumerID)
	h.refused("GET", "/queues/never-made", "", 404, 11000)

	h.refused("GET", path+"/consumers/x", "", 404, 11002)
	h.refused("DELETE", path+"/consumers/x", "", 404, 11002)
	a = h.ok("DELETE", path+"/consumers/"+list[0].ConsumerID, "", nil)
	assert.Equal(t, "null", string(a.Result))
	h.refused("DELETE", path+"/consumers/"+list[0].ConsumerID, "", 404, 11002)
	h.refused("POST", path+"/messages/pull", "", 405, 0)
	h.ok("GET", path+"/consumers", "", &list)
	assert.Empty(t, list)
	h.ok("POST", path+"/consumers", `{"type":"http_pull"}`, nil)
}

func TestBadConsumersChangeNothing(t *testing.T) {
	h := start(t, cfqueues.Options{})
	h.ok("POST", "/queues", `{"queue_name":"jobs"}`, nil)
	for body, code := range map[string]int{
		``: 10208, `{`: 10208, `{}`: 10026, `{"type":"worker","script_name":"w"}`: 100127, `{"type":"pull"}`: 10026,
		`{"type":"http_pull","settings":{"batch_size":101},"dead_letter_queue":"dlq"}`: 100127,
		`{"type":"http_pull","settings":{"batch_size":1.5}}`:                           10207,
		`{"type":"http_pull","dead_letter_queue":"Not A Name"}`:                        11003,
		`{"type":"http_pull","dead_letter_queue":"jobs"}`:                              100127,
		`{"type":"http_pull","dead_letter_queue":5}`:                                   10207,
	} {
		h.refused("POST", "/queues/jobs/consumers", body, 400, code)
	}
	var list []queue
	h.ok("GET", "/queues", "", &list)
	require.Len(t, list, 1)
	assert.Empty(t, list[0].Consumers)
}

func TestDeadLetterQueueIsMadeAndProtected(t *testing.T) {
	h := start(t, cfqueues.Options{})
	h.ok("POST", "/queues", `{"queue_name":"jobs"}`, nil)
	c := h.consume("jobs", "", "jobs-dlq")
	assert.Equal(t, "jobs-dlq", *c.DeadLetterQueue)
	var q queue
	h.ok("GET", "/queues/jobs-dlq", "", &q)
	assert.EqualValues(t, 345600, *q.Settings.MessageRetentionPeriod)
	a := h.refused("DELETE", "/queues/jobs-dlq", "", 400, 11005)
	assert.Equal(t, "Cannot delete queue 'jobs-dlq' that serves as dead letter queue for consumers", a.Errors[0].Message)
	h.ok("DELETE", "/queues/jobs/consumers/"+c.ConsumerID, "", nil)
	h.ok("DELETE", "/queues/jobs-dlq", "", nil)
	// An existing queue is taken as it is.
	h.ok("POST", "/queues", `{"queue_name":"other","settings":{"delivery_delay":9}}`, nil)
	h.consume("jobs", "", "other")
	h.ok("GET", "/queues/other", "", &q)
	assert.EqualValues(t, 9, *q.Settings.DeliveryDelay)
}

func TestDeletedQueueIsGone(t *testing.T) {
	h := start(t, cfqueues.Options{})
	path := h.make("jobs", "")
	h.push(path, "a")
	m := h.one(path)
	a := h.ok("DELETE", path, "", nil)
	assert.Equal(t, "null", string(a.Result))
	h.refused("GET", path, "", 404, 11000)
	h.refused("DELETE", path, "", 404, 11000)
	again := h.make("jobs", "")
	assert.NotEqual(t, path, again)
	assert.Empty(t, h.pull(again, ""), "the new queue has nothing of the old one")
	h.ack(again, m.LeaseID).is(t, 0, 0, 1)
}

func TestQueryOfAListIsDecoded(t *testing.T) {
	h := start(t, cfqueues.Options{})
	h.ok("POST", "/queues", `{"queue_name":"a-b"}`, nil)
	var all []queue
	h.ok("GET", "/queues?name="+url.QueryEscape("a-b"), "", &all)
	assert.Len(t, all, 1)
	h.ok("GET", "/queues?name=%61%2Db&name=%ff", "", &all)
	assert.Len(t, all, 1)
}

func TestQueueIsReplacedAndMerged(t *testing.T) {
	h := start(t, cfqueues.Options{})
	var q queue
	h.ok("POST", "/queues", `{"queue_name":"jobs","settings":{"delivery_delay":9,"message_retention_period":3600}}`, &q)
	path := "/queues/" + q.QueueID
	c := h.consume(q.QueueID, `"batch_size":7`, "")
	settings := func() [3]any {
		return [3]any{*q.Settings.DeliveryDelay, *q.Settings.DeliveryPaused, *q.Settings.MessageRetentionPeriod}
	}
	h.clock.Advance(time.Second)
	h.ok("PATCH", path, `{"queue_name":"jobs","settings":{"delivery_paused":true}}`, &q)
	assert.Equal(t, [3]any{int64(9), true, int64(3600)}, settings())
	assert.Equal(t, "2026-01-02T03:04:05.000000Z", q.CreatedOn)
	assert.Equal(t, "2026-01-02T03:04:06.000000Z", q.ModifiedOn)
	h.refused("POST", path+"/messages/pull", "", 409, 0)
	h.ok("PATCH", path, `{"settings":{"delivery_paused":null,"delivery_delay":null}}`, &q)
	assert.Equal(t, [3]any{int64(0), false, int64(3600)}, settings(), "null is the default, what is left out stays")
	h.ok("PATCH", path, `{"settings":{"message_retention_period":null}}`, &q)
	assert.Equal(t, [3]any{int64(0), false, int64(345600)}, settings())
	h.ok("PATCH", path, `{"settings":null}`, &q)
	assert.Equal(t, [3]any{int64(0), false, int64(345600)}, settings())
	h.ok("PUT", path, `{"settings":{"delivery_delay":7}}`, &q)
	assert.Equal(t, [3]any{int64(7), false, int64(345600)}, settings())
	h.ok("PUT", path, `{"queue_name":"work","settings":{}}`, &q)
	assert.Equal(t, [3]any{int64(0), false, int64(345600)}, settings())
	assert.Equal(t, "work", q.QueueName)
	require.Len(t, q.Consumers, 1)
	assert.Equal(t, c.ConsumerID, q.Consumers[0].ConsumerID, "the consumer survives")
	assert.InDelta(t, 7, q.Consumers[0].Settings["batch_size"], 0)
	h.ok("PUT", path, `{}`, &q)
	assert.Equal(t, "work", q.QueueName)
	h.refused("GET", "/queues/jobs", "", 404, 11000)
}

func TestBadChangesOfAQueueChangeNothing(t *testing.T) {
	h := start(t, cfqueues.Options{})
	h.ok("POST", "/queues", `{"queue_name":"other"}`, nil)
	var before, after queue
	h.ok("POST", "/queues", `{"queue_name":"jobs","settings":{"delivery_delay":9}}`, &before)
	for _, method := range []string{"PUT", "PATCH"} {
		for body, code := range map[string]int{
			``: 10208, `{`: 10208, `[]`: 10207, `{"queue_name":""}`: 11003, `{"queue_name":"A B"}`: 11003, `{"queue_name":"other"}`: 11009,
			`{"queue_name":5}`: 10207, `{"settings":{"delivery_delay":-1}}`: 100128, `{"settings":{"delivery_delay":1,"delivery_paused":"yes"}}`: 10207,
		} {
			h.refused(method, "/queues/jobs", body, 400, code)
		}
		h.refused(method, "/queues/nosuch", `{}`, 404, 11000)
	}
	h.ok("GET", "/queues/jobs", "", &after)
	assert.Equal(t, before, after)
}
