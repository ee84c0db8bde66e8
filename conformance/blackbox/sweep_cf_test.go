package blackbox

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
			return strings.Contains(string(a.Body), `"ackCount":0,"retryCount":0,"warnings":{"`)
		},
	}
}

// cfRoutes are the routes of the Cloudflare protocol that read a body.
func (s *sweeper) cfRoutes() []sweptRoute {
	queue := "/queues/sweep"
	return []sweptRoute{
		{method: "POST", path: "/queues", body: `{"queue_name":"made","settings":{"delivery_delay":5,"delivery_paused":false,"message_retention_period":3600}}`, edits: ownEdits([]edit{
			{to: ""}, {to: `{}`}, {to: `null`}, {to: `[]`}, {from: `"made"`, to: `7`}, {from: `"made"`, to: `null`}, {from: `"made"`, to: `""`, want: "11003"}, {from: `"made"`, to: `"Made"`, want: "11003"},
			{from: `"made"`, to: `"a/b"`, want: "11003"}, {from: `"made"`, to: `"-made"`, want: "11003"}, {from: `"made"`, to: `"` + strings.Repeat("x", 64) + `"`, want: "11003"}, {from: `"made"`, to: `"ma\u0000de"`, want: "11003"},
			{from: `"made"`, to: `"sweep"`, want: "11009"}, {from: `"made"`, to: `"\ud800"`},
		}, cfSettingsEdits)},
		{method: "PUT", path: queue, body: `{"queue_name":"renamed","settings":{"delivery_delay":5,"delivery_paused":false,"message_retention_period":3600}}`, edits: ownEdits([]edit{
			{to: `[]`}, {from: `"renamed"`, to: `7`}, {from: `"renamed"`, to: `""`, want: "11003"}, {from: `"renamed"`, to: `"sweep-queen"`, want: "11009"},
		}, cfSettingsEdits)},
		{method: "PATCH", path: queue, body: `{"queue_name":"renamed","settings":{"delivery_delay":5,"delivery_paused":false,"message_retention_period":3600}}`, edits: ownEdits([]edit{
			{to: `[]`}, {from: `"renamed"`, to: `{}`}, {from: `"renamed"`, to: `"_"`, want: "11003"}, {from: `"renamed"`, to: `"sweep-queen"`, want: "11009"},
		}, cfSettingsEdits)},
		{method: "POST", path: "/queues/sweep-queen/consumers", body: `{"type":"http_pull","dead_letter_queue":"dead","settings":{"batch_size":50,"max_retries":3,"retry_delay":10,"visibility_timeout_ms":6000}}`, edits: cfConsumerEdits()},
		{method: "POST", path: queue + "/consumers", taken: true, body: `{"type":"http_pull"}`, edits: []edit{{to: `{"type":"http_pull"}`, want: "11004"}}},
		{method: "POST", path: queue + "/messages", body: `{"body":{"n":1},"content_type":"json","delay_seconds":1}`, edits: cfPushEdits()},
		{method: "POST", path: queue + "/messages/batch", body: `{"messages":[{"body":"a","content_type":"text","delay_seconds":1},{"body":{"n":1}}],"delay_seconds":2}`, edits: []edit{
			{to: ""}, {to: `{}`}, {to: `null`}, {to: `[]`}, {to: `{"messages":null}`}, {to: `{"messages":{}}`}, {to: `{"messages":[]}`, want: "10206"}, {from: `[{`, to: `[7,{`}, {from: `[{`, to: `[null,{`}, {from: `[{`, to: `[{},{`},
			{from: `"a"`, to: `7`}, {from: `"text"`, to: `"v8"`, want: "10203"}, {from: `1},`, to: `-1},`, want: "10203"}, {from: `2}`, to: `-2}`, want: "10202"}, {from: `2}`, to: `86401}`, want: "10202"}, {from: `2}`, to: `"2"}`},
			{from: `[{`, to: `[` + strings.Repeat(`{"body":1},`, 99) + `{`, status: 413, want: "10206"},
			{from: `"a"`, to: `"` + strings.Repeat("a", 128_001) + `"`, status: 413, want: "10204"},
			{from: `[{`, to: `[` + strings.Repeat(`{"content_type":"text","body":"`+strings.Repeat("a", 100_000)+`"},`, 3) + `{`, status: 413, want: "10205"},
		}},
		{method: "POST", path: queue + "/messages/pull", body: `{"batch_size":1,"visibility_timeout_ms":6000}`, edits: []edit{
			{to: `[]`}, {to: `null`}, {from: `1,`, to: `"x",`}, {from: `1,`, to: `0,`}, {from: `1,`, to: `101,`}, {from: `1,`, to: `-1,`}, {from: `1,`, to: `1.5,`}, {from: `1,`, to: `1e300,`}, {from: `1,`, to: `99999999999999999999,`}, {from: `1,`, to: `[],`},
			{from: `6000`, to: `-1`}, {from: `6000`, to: `43200001`}, {from: `6000`, to: `"6s"`}, {from: `6000`, to: `1e300`}, {from: `6000`, to: `0.5`}, {from: `"visibility_timeout_ms":6000`, to: `"visibility_timeout":-5`},
		}},
		{method: "POST", path: queue + "/messages/ack", body: s.fill(`{"acks":[{"lease_id":"CFID"}],"retries":[{"lease_id":"x","delay_seconds":5}]}`), edits: []edit{
			{to: `[]`}, {to: `null`}, {from: s.fill(`[{"lease_id":"CFID"}]`), to: `{}`}, {from: s.fill(`[{"lease_id":"CFID"}]`), to: `7`}, {from: `[{`, to: `[7,{`}, {from: `[{`, to: `[{},{`}, {from: `[{`, to: `[null,{`}, {from: s.fill(`"CFID"`), to: `7`},
			{from: `5}`, to: `-1}`}, {from: `5}`, to: `86401}`}, {from: `5}`, to: `"5"}`}, {from: `5}`, to: `1e300}`}, {from: `"x"`, to: `7`},
			{to: `{"acks":[{"lease_id":"x"}],"retries":[{"lease_id":""},{"lease_id":"\u0000"}]}`, status: 200},
			{to: s.fill(`{"acks":[{"lease_id":"CFIDx"}],"retries":[{"lease_id":"xCFID"}]}`), status: 200},
			{to: `{"acks":[{"lease_id":"` + strings.Repeat("A", 100_000) + `"}]}`, status: 200},
		}},
		{method: "POST", path: "/queues/sweep-queen/messages/ack", body: `{}`, lenient: true, edits: []edit{
			{to: s.fill(`{"acks":[{"lease_id":"CFID"}],"retries":[{"lease_id":"CFID"}]}`), status: 200},
		}},
		{method: "POST", path: queue + "/purge", body: `{"delete_messages_permanently":true}`, edits: []edit{
			{to: ""}, {to: `{}`}, {to: `null`}, {to: `[]`}, {from: `true`, to: `false`}, {from: `true`, to: `null`}, {from: `true`, to: `"true"`}, {from: `true`, to: `1`},
		}},
	}
}

var cfSettingsEdits = []edit{
	{from: `5,`, to: `"x",`}, {from: `5,`, to: `-1,`}, {from: `5,`, to: `86401,`}, {from: `5,`, to: `1.5,`}, {from: `5,`, to: `1e300,`}, {from: `false`, to: `"no"`}, {from: `false`, to: `0`},
	{from: `3600`, to: `59`}, {from: `3600`, to: `1209601`}, {from: `3600`, to: `-3600`}, {from: `3600`, to: `{}`}, {from: `3600`, to: `99999999999999999999`},
	{from: `{"delivery_delay":5,"delivery_paused":false,"message_retention_period":3600}`, to: `7`}, {from: `{"delivery_delay":5,"delivery_paused":false,"message_retention_period":3600}`, to: `[]`},
}

func cfConsumerEdits() []edit {
	return []edit{
		{to: ""}, {to: `{}`, want: "10026"}, {to: `[]`}, {from: `"http_pull"`, to: `7`}, {from: `"http_pull"`, to: `"worker"`}, {from: `"http_pull"`, to: `"nope"`, want: "10026"}, {from: `"http_pull"`, to: `null`, want: "10026"},
		{from: `"dead"`, to: `7`}, {from: `"dead"`, to: `"Dead Queue"`}, {from: `"dead"`, to: `"sweep-queen"`}, {from: `50`, to: `0`}, {from: `50`, to: `101`}, {from: `50`, to: `"x"`}, {from: `50`, to: `-1`}, {from: `50`, to: `1e300`},
		{from: `:3`, to: `:-1`}, {from: `:3`, to: `:101`}, {from: `:3`, to: `:{}`}, {from: `:3`, to: `:2.5`}, {from: `:10`, to: `:-1`}, {from: `:10`, to: `:86401`}, {from: `:10`, to: `:"x"`},
		{from: `:6000`, to: `:-1`}, {from: `:6000`, to: `:43200001`}, {from: `:6000`, to: `:[]`}, {from: `{"batch_size":50,"max_retries":3,"retry_delay":10,"visibility_timeout_ms":6000}`, to: `7`},
	}
}

func cfPushEdits() []edit {
	return []edit{
		{to: ""}, {to: `{}`, want: `Required at \"body\"`}, {to: `null`}, {to: `[]`}, {from: `"body":{"n":1},`, want: "10207"}, {from: `{"n":1}`, to: `{"n":01}`, want: "10208"}, {from: `{"n":1}`, to: "\"\xff\"", want: "10208"}, {from: `{"n":1}`, to: "\"\x01\"", want: "10208"},
		{from: `"json"`, to: `7`}, {from: `"json"`, to: `"v8"`, want: "10203"}, {from: `"json"`, to: `"xml"`, want: "10203"}, {from: `"json"`, to: `"text"`, want: "10207"}, {from: `"json"`, to: `"bytes"`, want: "10207"},
		{from: `{"n":1},"content_type":"json"`, to: `"***","content_type":"bytes"`}, {from: `{"n":1},"content_type":"json"`, to: `"\ud800","content_type":"text"`},
		{from: `1}`, to: `1`, want: "10208"}, {from: `:1}`, to: `:-1`, want: "10208"}, {from: `"delay_seconds":1`, to: `"delay_seconds":-1`, want: "10203"}, {from: `"delay_seconds":1`, to: `"delay_seconds":86401`, want: "10203"}, {from: `"delay_seconds":1`, to: `"delay_seconds":1.5`}, {from: `"delay_seconds":1`, to: `"delay_seconds":"1"`}, {from: `"delay_seconds":1`, to: `"delay_seconds":1e300`, want: "10203"},
		{from: `{"n":1}`, to: `"` + strings.Repeat("a", 128_001) + `"`, status: 413, want: "10204"},
	}
}

// cfOthers are bad paths and methods, queries, and objects that do not exist.
func (s *sweeper) cfOthers() (out []badRequest) {
	none := strings.Repeat("0", 32)
	for _, r := range []string{
		"GET /queues/nope", "GET /queues/" + none, "PUT /queues/" + none, "PATCH /queues/nope", "DELETE /queues/" + none, "GET /queues/nope/consumers", "POST /queues/nope/consumers", "GET /queues/nope/metrics", "GET /queues/nope/purge",
		"GET /queues/sweep%2Fmetrics", "DELETE /queues/sweep%2Fconsumers", "DELETE /queues/%2F", "DELETE /queues/sweep%00", "DELETE /queues/sweep%ff", "DELETE /queues/SWEEP", "DELETE /queues/%73weep%2f",
		"GET /queues/sweep/consumers/nope", "DELETE /queues/sweep/consumers/" + none, "DELETE /queues/sweep/consumers/%2F",
		"GET /nope", "POST /queues/sweep/nope", "GET /queues/sweep/messages", "DELETE /queues/sweep/messages", "PUT /queues/sweep/messages/pull", "GET /queues/sweep/messages/pull", "DELETE /queues/sweep/purge", "POST /queues/sweep/metrics", "DELETE /queues",
		"PUT /queues", "POST /queues/sweep", "POST /queues/sweep/messages/pull/x", "POST /queues/sweep/messages%2Fpull", "POST /Queues", "BREW /queues/sweep",
	} {
		method, path, _ := strings.Cut(r, " ")
		body := ""
		if method != "GET" && method != "DELETE" {
			body = `{"queue_name":"sweep","type":"http_pull","body":1}`
		}
		out = append(out, badRequest{method: method, path: path, body: body, status: 404})
	}
	for _, r := range []string{"/messages", "/messages/batch", "/messages/pull", "/messages/ack", "/purge"} {
		out = append(out, badRequest{method: "POST", path: "/queues/nope" + r, body: `{"body":1,"messages":[{"body":1}],"delete_messages_permanently":true}`, status: 404})
	}
	for _, q := range []string{"page=x", "page=0", "page=-1", "per_page=x", "per_page=0", "page=99999999999999999999"} {
		out = append(out, badRequest{method: "GET", path: "/queues?" + q, status: 400})
	}
	return append(out,
		badRequest{method: "POST", path: "/queues/sweep-queen/messages/pull", body: `{}`, status: 405, want: `messages cannot be pulled unless http_pull mode is enabled`},
	)
}
