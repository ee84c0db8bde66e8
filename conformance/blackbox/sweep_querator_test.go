package blackbox

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// undecodable is the protocol's status for bodies that cannot be decoded.
const undecodable = 455

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

// Edits that every route with a queue name shares.
var queueNameEdits = []edit{
	{to: ""}, {to: `[]`}, {to: `{}`, status: 400, want: "queue name is invalid; queue name cannot be empty"},
	{from: `"queue_name":"sweep"`, to: `"queue_name":7`}, {from: `"queue_name":"sweep"`, to: `"queue_name":{}`}, {from: `"queue_name":"sweep"`, to: `"queue_name":["sweep"]`},
	{from: `"queue_name":"sweep"`, to: `"queue_name":null`, status: 400, want: "queue name cannot be empty"},
	{from: `"queue_name":"sweep"`, to: `"queue_name":"sweep","bogus":1`, want: "bogus"},
	{from: `"queue_name":"sweep"`, to: `"queue_name":"sweep","queue_name":"sweep"`},
	{from: `"queue_name":"sweep"`, to: `"queue_name":"sweep","queueName":"sweep"`},
	{from: `"queue_name":"sweep"`, to: `"queue_name":"nope"`, status: 400, want: "queue does not exist; no such queue named 'nope'"},
	{from: `"queue_name":"sweep"`, to: `"queue_name":"sw~eep"`, status: 400, want: "cannot contain '~' character"},
	{from: `"queue_name":"sweep"`, to: `"queue_name":"sw\u0000eep"`, status: 400},
	{from: `"queue_name":"sweep"`, to: `"queue_name":"sw\ud800eep"`},
}

// partitionEdits are for the routes that name a partition.
var partitionEdits = []edit{
	{from: `"partition":0`, to: `"partition":"x"`}, {from: `"partition":0`, to: `"partition":0.5`}, {from: `"partition":0`, to: `"partition":{}`},
	{from: `"partition":0`, to: `"partition":99999999999`}, {from: `"partition":0`, to: `"partition":1e300`},
	{from: `"partition":0`, to: `"partition":-1`, status: 400, want: "is not a valid partition"},
	{from: `"partition":0`, to: `"partition":2`, status: 400, want: "is not a valid partition"},
	{from: `"partition":0`, to: `"partition":2147483647`, status: 400, want: "is not a valid partition"},
	{from: `"partition":0`, to: `"partition":1`, status: 400, want: "does not exist"},
}

// timeoutEdits are for the routes that take a timeout of 5s.
var timeoutEdits = []edit{
	{from: `"5s"`, to: `5`}, {from: `"5s"`, to: `{}`},
	{from: `"5s"`, to: `"foo"`, status: 400, want: "request timeout is invalid"}, {from: `"5s"`, to: `"5"`, status: 400, want: "request timeout is invalid"},
	{from: `"5s"`, to: `"99999999999h"`, status: 400, want: "request timeout is invalid"}, {from: `"5s"`, to: `"16m"`, status: 400, want: "maximum timeout is '15m'"},
	{from: `"5s"`, to: `""`, status: 400, want: "request timeout is required"}, {from: `"5s"`, to: `null`, status: 400, want: "request timeout is required"},
}

// ownEdits joins shared edits with a route's own.
func ownEdits(own []edit, shared ...[]edit) (out []edit) {
	for _, list := range append(shared, own) {
		out = append(out, list...)
	}
	return out
}

// queratorRoutes are the routes of the Querator protocol.
func (s *sweeper) queratorRoutes() []sweptRoute {
	claim := ownEdits([]edit{
		{from: `"one"`, to: `7`}, {from: `"one"`, to: `"  "`, status: 400, want: "invalid client id; cannot be empty"}, {from: `"client_id":"one",`, status: 400, want: "client id"},
		{from: `1,`, to: `"x",`}, {from: `1,`, to: `1.5,`}, {from: `1,`, to: `99999999999,`}, {from: `1,`, to: `1e300,`},
		{from: `1,`, to: `0,`, status: 400, want: "invalid batch size"}, {from: `1,`, to: `-1,`, status: 400, want: "invalid batch size"}, {from: `1,`, to: `1001,`, status: 400, want: "1000"},
		{from: `"5s"`, to: `"10ms"`, status: 400, want: "minimum timeout"}, {from: `"5s"`, to: `"-5s"`, status: 400, want: "minimum timeout"},
		{from: `"one"`, to: `"` + strings.Repeat("x", 512) + `"`, status: 400, want: "request body exceeds 512B limit"},
	}, queueNameEdits, timeoutEdits)
	claimBody := `{"queue_name":"sweep","client_id":"one","batch_size":1,"request_timeout":"5s"}`
	return []sweptRoute{
		{method: "POST", path: "/v1/queue.produce", body: `{"queue_name":"sweep","request_timeout":"5s","items":[{"reference":"r","bytes":"YQ=="}]}`, edits: ownEdits([]edit{
			{from: `,"items":[{"reference":"r","bytes":"YQ=="}]`, status: 400, want: "items cannot be empty"}, {from: `[{"reference":"r","bytes":"YQ=="}]`, to: `[]`, status: 400, want: "items cannot be empty"},
			{from: `[{"reference":"r","bytes":"YQ=="}]`, to: `{}`}, {from: `[{`, to: `[7,{`}, {from: `[{`, to: `[null,{`}, {from: `}]`, to: `},"x"]`}, {from: `"r"`, to: `7`}, {from: `"YQ=="`, to: `"***"`}, {from: `"YQ=="`, to: `[97]`},
			{from: `"reference"`, to: `"enqueue_at":"tomorrow","reference"`}, {from: `"reference"`, to: `"enqueue_at":7,"reference"`}, {from: `"reference"`, to: `"enqueue_at":"2024-01-01 12:00:00.0000","reference"`},
			{from: `"reference"`, to: `"bogus":1,"reference"`}, {from: `[{`, to: `[` + strings.Repeat(`{},`, 1000) + `{`, status: 400, want: "max_produce_batch_size is 1000 but received 1001"},
			{from: `"5s"`, to: `"10ms"`, status: 400, want: "minimum timeout"}, {from: `"5s"`, to: `"15m"`, status: 400, want: "maximum timeout"}, {from: `"5s"`, to: `"-5s"`, status: 400, want: "minimum timeout"},
		}, queueNameEdits, timeoutEdits)},
		{method: "POST", path: "/v1/queue.lease", most: 512, body: claimBody, edits: claim},
		{method: "POST", path: "/v1/queue.reserve", most: 512, body: claimBody, edits: claim},
		{method: "POST", path: "/v1/queue.complete", body: s.fill(`{"queue_name":"sweep","partition":0,"request_timeout":"5s","ids":["ITEM"]}`), edits: ownEdits([]edit{
			{from: s.fill(`["ITEM"]`), to: `[]`, status: 400, want: "ids is invalid"}, {from: s.fill(`,"ids":["ITEM"]`), status: 400, want: "ids is invalid"}, {from: s.fill(`["ITEM"]`), to: `"x"`}, {from: s.fill(`["ITEM"]`), to: `[7]`},
			{from: s.fill(`"ITEM"]`), to: s.fill(`"ITEM","invalid-id"]`), status: 400, want: "invalid storage id; 'invalid-id'"},
			{from: s.fill(`"ITEM"]`), to: s.fill(`"ITEM","3Mn3LpZ6UpzbX3OPtG9gLzagBgd"]`), status: 400, want: "does not exist"},
			{from: s.fill(`"ITEM"]`), to: s.fill(`"ITEM","zzzzzzzzzzzzzzzzzzzzzzzzzzz"]`), status: 400, want: "invalid storage id"},
			{from: s.fill(`"ITEM"`), to: strings.TrimSuffix(strings.Repeat(s.fill(`"ITEM",`), 1001), ","), status: 400, want: "max_complete_batch_size is 1000 but received 1001"},
		}, queueNameEdits, partitionEdits, timeoutEdits)},
		{method: "POST", path: "/v1/queue.retry", body: s.fill(`{"queue_name":"sweep","partition":0,"items":[{"id":"ITEM"}]}`), edits: s.retryEdits(`retry_at`)},
		{method: "POST", path: "/v1/queue.defer", body: s.fill(`{"queue_name":"sweep","partition":0,"items":[{"id":"ITEM"}]}`), edits: s.retryEdits(`enqueue_at`)},
		{method: "POST", path: "/v1/queue.stats", most: 512, reads: true, body: `{"queue_name":"sweep"}`, edits: queueNameEdits},
		{method: "POST", path: "/v1/queues.info", reads: true, body: `{"queue_name":"sweep"}`, edits: queueNameEdits},
		{method: "POST", path: "/v1/queues.delete", body: `{"queue_name":"sweep"}`, edits: ownEdits([]edit{
			{from: `"sweep"`, to: `"sweep","force":"yes"`}, {from: `"sweep"`, to: `"sw eep"`, status: 400, want: "whitespace"}, {from: `"sweep"`, to: `"` + strings.Repeat("x", 513) + `"`, status: 400, want: "512"},
		}, queueNameEdits)},
		{method: "POST", path: "/v1/queues.list", reads: true, body: `{"limit":10,"pivot":"a"}`, edits: []edit{
			{to: ""}, {to: `[]`}, {from: `10`, to: `"x"`}, {from: `10`, to: `-1`, status: 400, want: "limit"}, {from: `10`, to: `65537`, status: 400, want: "limit"}, {from: `10`, to: `1e300`}, {from: `10`, to: `99999999999`},
			{from: `"a"`, to: `7`}, {from: `"a"`, to: `"a~"`, status: 400, want: "pivot"}, {from: `"a"`, to: `"a","bogus":1`},
		}},
		{method: "POST", path: "/v1/queues.create", body: `{"queue_name":"made","lease_timeout":"1m","expire_timeout":"1h","max_attempts":3,"requested_partitions":1,"dead_queue":"sweep","reference":"r"}`, edits: queratorCreateEdits()},
	}
}

func (s *sweeper) retryEdits(at string) []edit {
	return ownEdits([]edit{
		{from: s.fill(`[{"id":"ITEM"}]`), to: `[]`, status: 400, want: "items is invalid"}, {from: s.fill(`,"items":[{"id":"ITEM"}]`), status: 400, want: "items is invalid"}, {from: s.fill(`[{"id":"ITEM"}]`), to: `{}`},
		{from: s.fill(`"ITEM"`), to: `7`}, {from: s.fill(`"ITEM"`), to: s.fill(`"ITEM","` + at + `":"tomorrow"`)}, {from: s.fill(`"ITEM"`), to: s.fill(`"ITEM","` + at + `":-1`)}, {from: s.fill(`"ITEM"`), to: s.fill(`"ITEM","dead":"yes"`)},
		{from: `}]`, to: `},{"id":"invalid-id"}]`, status: 400, want: "invalid storage id; 'invalid-id'"}, {from: `}]`, to: `},{}]`, status: 400, want: "invalid storage id"},
		{from: `}]`, to: `},{"id":"3Mn3LpZ6UpzbX3OPtG9gLzagBgd"}]`, status: 400, want: "does not exist"}, {from: `}]`, to: `}],"request_timeout":"5s"`, want: "request_timeout"},
		{from: `}]`, to: `}` + strings.Repeat(s.fill(`,{"id":"ITEM"}`), 1000) + `]`, status: 400, want: "max_complete_batch_size is 1000 but received 1001"},
	}, queueNameEdits, partitionEdits)
}

func queratorCreateEdits() []edit {
	return []edit{
		{to: ""}, {to: `[]`}, {to: `{}`, status: 400, want: "queue name is invalid; queue name cannot be empty"},
		{from: `"made"`, to: `7`}, {from: `"made"`, to: `"ma~de"`, status: 400, want: "'~'"}, {from: `"made"`, to: `"ma de"`, status: 400, want: "whitespace"},
		{from: `"made"`, to: `"` + strings.Repeat("x", 513) + `"`, status: 400, want: "512"}, {from: `"made"`, to: `"sweep"`, status: 400, want: "already exists"}, {from: `"made"`, to: `"made","bogus":1`},
		{from: `"1m"`, to: `60`}, {from: `"1m"`, to: `"foo"`, status: 400, want: "lease timeout is invalid"}, {from: `"1m"`, to: `"-1m"`, status: 400, want: "lease timeout"}, {from: `"lease_timeout":"1m",`, status: 400, want: "lease timeout is invalid; cannot be empty"},
		{from: `"1m"`, to: `"2h"`, status: 400, want: "cannot be greater than the expire timeout"}, {from: `"1m"`, to: `"1m0000000000000000s"`, status: 400, want: "15"},
		{from: `"1h"`, to: `60`}, {from: `"1h"`, to: `"foo"`, status: 400, want: "expire timeout is invalid"}, {from: `"1h"`, to: `"-1h"`, status: 400}, {from: `"expire_timeout":"1h",`, status: 400, want: "expire timeout is invalid; cannot be empty"},
		{from: `3,`, to: `"x",`}, {from: `3,`, to: `-1,`, status: 400, want: "max attempts"}, {from: `3,`, to: `65537,`, status: 400, want: "max attempts"}, {from: `3,`, to: `1e300,`},
		{from: `1,`, to: `0,`, status: 400, want: "partitions is invalid"}, {from: `1,`, to: `-1,`, status: 400, want: "partitions is invalid"}, {from: `1,`, to: `99999999999,`},
		{from: `1,`, to: `2147483647,`, status: 400},
		{from: `"dead_queue":"sweep"`, to: `"dead_queue":"nope"`, status: 400, want: "dead_queue"}, {from: `"dead_queue":"sweep"`, to: `"dead_queue":"made"`, status: 400, want: "dead_queue"}, {from: `"dead_queue":"sweep"`, to: `"dead_queue":7`},
		{from: `"dead_queue":"sweep"`, to: `"dead_queue":"a~"`, status: 400, want: "dead queue"}, {from: `"r"`, to: `"` + strings.Repeat("r", 2001) + `"`, status: 400, want: "reference"},
		{from: `"lease_timeout":"1m"`, to: `"lease_timeout":"1m","reserve_timeout":"1m"`},
	}
}

// queratorOthers are bad paths, methods and content types.
func (s *sweeper) queratorOthers() (out []badRequest) {
	stats := `{"queue_name":"sweep"}`
	for _, path := range []string{"/v1/queue.nope", "/v1", "/", "/v1/queue.stats/", "//v1/queue.stats", "/V1/queue.stats", "/v1/Queue.stats", "/v1/queue.stats/x", "/v1/queue.stats%2F", "/v2/queue.stats", "/v1/queues.rebalance", "/v1/queue.pause"} {
		out = append(out, badRequest{method: "POST", path: path, body: stats, status: 501, want: "no such method; "})
	}
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"} {
		for _, path := range []string{"/v1/queues.delete", "/v1/queue.produce", "/nope"} {
			out = append(out, badRequest{method: method, path: path, body: stats, status: 400, want: "http method '" + method + "' not allowed; only POST"})
		}
	}
	for _, ct := range []string{"text/plain", "application/octet-stream", "application/x-protobuf", "application/x-www-form-urlencoded", "json", "\x80"} {
		out = append(out, badRequest{method: "POST", path: "/v1/queues.delete", body: stats, headers: []string{"Content-Type", ct}, status: undecodable, want: "is invalid format or unrecognized content type"})
	}
	for _, body := range []string{"\x0a", "\x0a\x05sw", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x0a\x02\xff\xfe", "\x0b", stats} {
		out = append(out, badRequest{method: "POST", path: "/v1/queues.delete", body: body, headers: []string{"Content-Type", "application/protobuf", "Accept", "application/json"}, status: undecodable})
	}
	return append(out,
		badRequest{method: "POST", path: "/v1/queue.stats", body: stats, headers: []string{"Accept", "text/html, application/json"}, status: undecodable, want: "Accept header"},
		badRequest{method: http.MethodPost, path: "/v1/queue.stats", body: stats, headers: []string{"Authorization", "Basic eA=="}, status: 401, want: "invalid authorization header format"},
	)
}
