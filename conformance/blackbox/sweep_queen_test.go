package blackbox

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

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

// queenRoutes are the routes of the Queen protocol that read a body.
func (s *sweeper) queenRoutes() []sweptRoute {
	return []sweptRoute{
		{method: "POST", path: "/api/v1/push", body: `{"items":[{"queue":"sweep","partition":"0","payload":{"n":1},"transactionId":"new"}]}`, edits: queenPushEdits()},
		{method: "POST", path: "/api/v1/ack", body: s.fill(`{"transactionId":"TXN","partitionId":"PART","status":"completed","consumerGroup":null,"leaseId":"LEASE"}`), edits: append(s.ackEdits(), []edit{
			{from: s.fill(`"transactionId":"TXN",`), want: "transactionId"},
			{from: s.fill(`"partitionId":"PART",`), want: "partitionId"},
			{from: `"consumerGroup":null`, to: `"consumerGroup":7`},
		}...)},
		{method: "POST", path: "/api/v1/ack/batch", body: s.fill(`{"acknowledgments":[{"transactionId":"TXN","partitionId":"PART","status":"completed","leaseId":"LEASE"}],"consumerGroup":null}`), edits: append(s.ackEdits(), []edit{
			{to: `{}`, want: "acknowledgments"}, {to: `{"acknowledgments":null}`, want: "acknowledgments"}, {to: `{"acknowledgments":{}}`},
			{from: `[{`, to: `[7,{`}, {from: `[{`, to: `[{},{`}, {from: `[{`, to: `[null,{`}, {from: `}]`, to: `},"x"]`},
			{from: `}]`, to: `},{"transactionId":"t"}]`, want: "partitionId"},
			{from: `"consumerGroup":null`, to: `"consumerGroup":[]`},
		}...)},
		{method: "POST", path: "/api/v1/lease/0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90/extend", body: `{"seconds":60}`, lenient: true, edits: []edit{
			{to: `{}`, status: 200}, {to: `[]`, status: 200}, {to: "", status: 200}, {to: `{"seconds":`, status: 200},
			{to: `{"seconds":"x"}`, status: 200}, {to: `{"seconds":-1}`, status: 200}, {to: `{"seconds":1e300}`, status: 200},
			{to: `{"seconds":9223372036854775807}`, status: 200}, {to: "\xff", status: 200, want: `"renewed":0`},
		}},
		{method: "POST", path: "/api/v1/lease/no-uuid%2F/extend", body: `{}`, lenient: true, edits: []edit{{to: `{"seconds":60}`, status: 200, want: `"success":false`}}},
		{method: "POST", path: "/api/v1/transaction", body: s.fill(`{"operations":[{"type":"push","items":[{"queue":"sweep","payload":1}]},{"type":"ack","transactionId":"TXN","partitionId":"PART","status":"completed"}],"requiredLeases":["LEASE"]}`), edits: s.transactionEdits()},
		{method: "POST", path: "/api/v1/configure", body: `{"queue":"sweep-queen","namespace":"n","options":{"leaseTime":9,"deadLetterQueue":false}}`, edits: []edit{
			{from: `"queue":"sweep-queen",`, want: "queue"}, {from: `"sweep-queen"`, to: `7`}, {from: `"sweep-queen"`, to: `null`, want: "queue"}, {from: `"sweep-queen"`, to: `["a"]`},
			{from: `"sweep-queen"`, to: `"a\u001fb"`}, {from: `"n"`, to: `7`}, {from: `"n"`, to: `"\u001f"`},
			{from: `{"leaseTime":9,"deadLetterQueue":false}`, to: `7`}, {from: `{"leaseTime":9,"deadLetterQueue":false}`, to: `"x"`},
			{from: `9`, to: `"9s"`}, {from: `9`, to: `9.5`}, {from: `9`, to: `1e300`}, {from: `9`, to: `-99999999999999999999`}, {from: `9`, to: `{}`},
			{from: `false`, to: `"no"`}, {from: `false`, to: `0`}, {from: `"options"`, to: `"mode":"merge-ish","options"`, want: "mode"},
		}},
	}
}

func queenPushEdits() []edit {
	return []edit{
		{to: ""}, {to: `{}`, want: "items"}, {to: `[]`}, {to: `null`}, {to: `{"items":null}`, want: "items"}, {to: `{"items":{}}`}, {to: `{"items":"x"}`}, {to: `{"items":7}`},
		{from: `[{`, to: `[7,{`}, {from: `[{`, to: `[null,{`}, {from: `}]`, to: `},"x"]`}, {from: `}]`, to: `},[]]`},
		{from: `}]`, to: `},{"payload":1}]`, want: "queue"}, {from: `}]`, to: `},{"queue":"sweep"}]`, want: "payload"},
		{from: `"sweep"`, to: `7`}, {from: `"sweep"`, to: `null`, want: "queue"}, {from: `"sweep"`, to: `{}`}, {from: `"sweep"`, to: `"a\u001fb"`},
		{from: `"0"`, to: `0`}, {from: `"0"`, to: `[]`}, {from: `"0"`, to: `true`}, {from: `"0"`, to: `"a\u001fb"`},
		{from: `,"payload":{"n":1}`, want: "payload"},
		{from: `{"n":1}`, to: `{"n":01}`}, {from: `{"n":1}`, to: `{"n":.5}`}, {from: `{"n":1}`, to: `Infinity`}, {from: `{"n":1}`, to: `"\x"`}, {from: `{"n":1}`, to: `"\u12"`},
		{from: `{"n":1}`, to: "\"\x1f\""}, {from: `{"n":1}`, to: "\"\xff\""}, {from: `{"n":1}`, to: `{"n":1`}, {from: `{"n":1}`, to: `{"n" 1}`}, {from: `{"n":1}`, to: `[1 2]`},
		{from: `"new"`, to: `7`}, {from: `"new"`, to: `{}`}, {from: `"new"`, to: `"a\u001fb"`}, {from: `"new"`, to: `"` + strings.Repeat("x", 65536) + `"`, want: "transactionId"},
	}
}

// ackEdits are for both acknowledgement routes: their items are refused as a whole when a field is
// of the wrong type, and one by one when it names what is not there.
func (s *sweeper) ackEdits() []edit {
	txn, part, lease := s.fill(`"TXN"`), s.fill(`"PART"`), s.fill(`"LEASE"`)
	nowhere := `"51586f4c-5023-4fe5-a73f-a0c17ec1df30"`
	return []edit{
		{to: ""}, {to: `[]`}, {to: `null`},
		{from: txn, to: `7`}, {from: txn, to: `null`, want: "transactionId"}, {from: txn, to: `{}`},
		{from: part, to: `7`}, {from: part, to: `null`, want: "partitionId"}, {from: part, to: `[]`},
		{from: `"completed"`, to: `7`}, {from: `"completed"`, to: `{}`}, {from: `"completed"`, to: `true`},
		{from: lease, to: `7`}, {from: lease, to: `{}`},
		{from: lease, to: nowhere, status: 200, want: "invalid or expired lease"},
		{from: lease, to: `"no-uuid"`, status: 200, want: "invalid or expired lease"},
		{from: part, to: nowhere, status: 200},
		{from: part, to: `"no-uuid"`, status: 200},
		{from: txn, to: `"never pushed"`, status: 200, want: "unresolvable"},
		{from: txn, to: `"a\u001fb"`, status: 200, want: "unresolvable"},
	}
}

func (s *sweeper) transactionEdits() []edit {
	txn, part, lease := s.fill(`"TXN"`), s.fill(`"PART"`), s.fill(`"LEASE"`)
	return []edit{
		{to: ""}, {to: `{}`, want: "operations"}, {to: `[]`}, {to: `null`}, {to: `{"operations":{}}`}, {to: `{"operations":null}`, want: "operations"},
		{from: `[{"type"`, to: `[7,{"type"`}, {from: `"push"`, to: `"pull"`, want: "push and ack"}, {from: `"push"`, to: `7`}, {from: `"push"`, to: `null`},
		{from: `"sweep"`, to: `7`}, {from: `"queue":"sweep",`, want: "queue"}, {from: `"payload":1`, to: `"payload":x`}, {from: `[{"queue"`, to: `[null,{"queue"`},
		{from: `"sweep"`, to: `"a\u001fb"`},
		{from: txn, to: `7`}, {from: s.fill(`"transactionId":"TXN",`), want: "transactionId"}, {from: s.fill(`,"partitionId":"PART"`), want: "partitionId"}, {from: part, to: `7`},
		{from: `"completed"`, to: `7`}, {from: s.fill(`["LEASE"]`), to: `[7]`}, {from: s.fill(`["LEASE"]`), to: `"x"`},
		{from: txn, to: `"never pushed"`, status: 200, want: "rolled back"},
		{from: lease, to: `"51586f4c-5023-4fe5-a73f-a0c17ec1df30"`, status: 200, want: "rolled back"},
		{from: lease, to: `"no-uuid"`, status: 200, want: "rolled back"},
		{from: part, to: `"51586f4c-5023-4fe5-a73f-a0c17ec1df30"`, status: 200},
		{from: part, to: `"no-uuid"`, status: 200},
	}
}

// fill puts the server's content into a body.
func (s *sweeper) fill(body string) string {
	return strings.NewReplacer("TXN", s.transaction, "PART", s.partition, "LEASE", s.lease, "ITEM", s.item, "CFID", s.cfLease).Replace(body)
}

// queenOthers are bad queries, paths and methods.
func (s *sweeper) queenOthers() (out []badRequest) {
	pop := "/api/v1/pop/queue/sweep-queen"
	for _, q := range []string{
		"batch=x", "batch=1.5", "batch=99999999999999999999", "batch=", "batch=%zz", "batch=%00", "partitions=x", "partitions=-99999999999999999999", "autoAck=maybe",
		"autoAck=2", "wait=yes", "wait=", "timeout=1s", "timeout=1e3", "leaseSeconds=x", "leaseSeconds=0x10", "consumerGroup=%1f", "consumerGroup=%ff", "batch=1&batch=x",
	} {
		for _, path := range []string{pop, pop + "/partition/Default", "/api/v1/pop"} {
			if path == "/api/v1/pop" {
				q += "&namespace=n"
			}
			out = append(out, badRequest{method: "GET", path: path + "?" + q, status: 400})
		}
	}
	for _, q := range []string{"", "?namespace=", "?task=&namespace=", "?batch=1"} {
		out = append(out, badRequest{method: "GET", path: "/api/v1/pop" + q, status: 400, want: `{"success":false,"error":"namespace or task is required","messages":[]}`})
	}
	for _, name := range []string{"a%1Fb", "a%ff", "%c3%28"} {
		out = append(out,
			badRequest{method: "GET", path: "/api/v1/pop/queue/" + name, status: 400},
			badRequest{method: "GET", path: pop + "/partition/" + name, status: 400})
	}
	for _, path := range []string{
		"/api/v1/nope", "/api/v1", "/api/", "/api/v1/pop/", "/api/v1/pop/queue", pop + "/", pop + "/partition", pop + "/partition/", pop + "/partition/a/b", "/api/v1/pop%2Fqueue/sweep-queen",
		"/api/v1//pop/queue/sweep-queen", "/API/v1/pop/queue/sweep-queen", "/api/v1/pop/queue/a/b", "/api/v1/resources/queues/a/b", "/api/v1/lease/x/extend", "/api/v1/dlq/", "/api/v1/./dlq", "/api/v1/push",
	} {
		out = append(out, badRequest{method: "GET", path: path, status: 404, want: `"code":"no_such_route"`})
	}
	for _, r := range []string{
		"PUT /api/v1/push", "DELETE /api/v1/push", "PATCH /api/v1/ack", "DELETE /api/v1/ack/batch", "POST " + pop, "DELETE " + pop, "POST /api/v1/pop", "PUT /api/v1/transaction",
		"DELETE /api/v1/configure", "POST /api/v1/resources/queues", "PUT /api/v1/resources/queues/sweep-queen", "POST /api/v1/resources/queues/sweep-queen", "PUT /api/v1/lease/x/extend", "POST /health",
		"POST /api/v1/push/", "POST /api/v1/push%2F", "POST /api/v1/ack%2Fbatch", "POST /nope", "BREW /api/v1/push", "DELETE /api/v1/resources/queues/a/b",
	} {
		method, path, _ := strings.Cut(r, " ")
		out = append(out, badRequest{method: method, path: path, body: `{"items":[{"queue":"sweep","payload":1}]}`, status: 404, want: `"code":"no_such_route"`})
	}
	return append(out,
		badRequest{method: "GET", path: "/api/v1/resources/queues/nope", status: 404, want: "Queue not found"},
		badRequest{method: "GET", path: "/api/v1/resources/queues/sweep-queen%2F", status: 404, want: "Queue not found"},
		badRequest{method: "DELETE", path: "/api/v1/resources/queues/sweep-queen%2F", status: 200, want: `"existed":false`},
		badRequest{method: "DELETE", path: "/api/v1/resources/queues/a%2F", status: 200, want: `"existed":false`},
		badRequest{method: "GET", path: "/api/v1/dlq?limit=x", status: 400},
		badRequest{method: "GET", path: "/api/v1/dlq?offset=1.5", status: 400},
		badRequest{method: "GET", path: pop + "/partition/nope", status: 204},
		badRequest{method: "GET", path: "/api/v1/pop/queue/a%2Fb", status: 204},
	)
}
