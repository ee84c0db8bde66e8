package querator_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/leasehold/leasehold/adapters/querator"
)

// field is a field of a message as it is on the wire: a text, bytes, a number, or a message.
type field struct {
	number protowire.Number
	value  any
}

// wire encodes a message from nothing but its numbers, as no client of the reserve family can be
// had any more.
func wire(fields ...field) []byte {
	var b []byte
	for _, f := range fields {
		switch v := f.value.(type) {
		case string:
			b = protowire.AppendString(protowire.AppendTag(b, f.number, protowire.BytesType), v)
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, f.number, protowire.BytesType), v)
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, f.number, protowire.VarintType), uint64(v)) //nolint:gosec // tests have no negative ones
		case time.Time:
			b = protowire.AppendBytes(protowire.AppendTag(b, f.number, protowire.BytesType), wire(field{1, int(v.Unix())}))
		}
	}
	return b
}

// unwire returns the fields of a message by number; a number that comes again has its last value.
func unwire(t *testing.T, b []byte) map[protowire.Number]any {
	t.Helper()
	out := map[protowire.Number]any{}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		require.Positive(t, n)
		b = b[n:]
		if typ == protowire.VarintType {
			v, m := protowire.ConsumeVarint(b)
			require.Positive(t, m)
			out[num], b = int(v), b[m:] //nolint:gosec // small
			continue
		}
		v, m := protowire.ConsumeBytes(b)
		require.Positive(t, m)
		out[num], b = string(v), b[m:]
	}
	return out
}

func (f *fixture) wired(path string, body []byte) map[protowire.Number]any {
	f.t.Helper()
	a := f.do(http.MethodPost, path, string(body), "Content-Type", "application/protobuf")
	require.Equal(f.t, 200, a.status, a.body)
	require.Equal(f.t, "application/protobuf", a.header.Get("Content-Type"))
	return unwire(f.t, []byte(a.body))
}

func TestReserveFamilyByItsWireBytes(t *testing.T) {
	done := map[protowire.Number]any{1: 200}
	for _, g := range []querator.Generation{querator.R1, querator.R2, querator.Auto} {
		t.Run(string(g), func(t *testing.T) {
			f := newFixture(t, querator.Options{Generation: g})
			require.Equal(t, done, f.wired("/v1/queues.create", wire(field{1, "q"}, field{5, "ref"}, field{6, "1m"}, field{7, "1h"}, field{8, 3}, field{9, 1})))
			require.Equal(t, done, f.wired("/v1/queue.produce", wire(field{1, "q"}, field{2, "1m"},
				field{3, wire(field{1, "enc"}, field{2, "kind"}, field{3, "first"}, field{4, []byte{0, 0xff}})},
				field{3, wire(field{3, "second"}, field{4, []byte("b")}, field{5, "text that loses"})},
			)))

			reserved := f.wired("/v1/queue.reserve", wire(field{1, "q"}, field{2, 1}, field{3, "c"}, field{4, "1m"}))
			require.Equal(t, "q", reserved[1])
			require.NotContains(t, reserved, protowire.Number(2), "partition 0")
			item := unwire(t, []byte(reserved[3].(string)))
			id := item[4]
			require.Len(t, id, 27)
			until := f.clock.Now().Std().Add(time.Minute)
			require.Equal(t, map[protowire.Number]any{
				1: "enc", 2: "kind", 3: "first", 4: id, 5: 1, 6: string(wire(field{1, int(until.Unix())})), 7: "\x00\xff",
			}, item)

			later := f.clock.Now().Std().Add(time.Hour)
			require.Equal(t, done, f.wired("/v1/queue.defer", wire(field{1, "q"}, field{3, wire(field{1, id}, field{2, later})})))
			second := unwire(t, []byte(f.wired("/v1/queue.reserve", wire(field{1, "q"}, field{2, 5}, field{3, "c"}, field{4, "1m"}))[3].(string)))
			require.Equal(t, "second", second[3])
			require.Equal(t, "b", second[7])
			require.Equal(t, done, f.wired("/v1/queue.complete", wire(field{1, "q"}, field{3, "1m"}, field{4, second[4]})))

			gone := f.do(http.MethodPost, "/v1/queue.complete", string(wire(field{1, "q"}, field{3, "1m"}, field{4, second[4]})), "Content-Type", "application/protobuf")
			require.Equal(t, 400, gone.status)
			require.Equal(t, map[protowire.Number]any{
				1: 400, 2: "Bad Request", 3: "invalid storage id; '" + second[4].(string) + "' does not exist",
			}, unwire(t, []byte(gone.body)))
			list := unwire(t, []byte(f.wired("/v1/queues.list", wire(field{2, "q"}, field{3, 1}))[1].(string)))
			require.Equal(t, "q", list[1])
			require.Equal(t, "1m0s", list[6])
			require.Equal(t, "1h0m0s", list[7])
			require.Equal(t, 3, list[8])
			require.Equal(t, done, f.wired("/v1/queue.clear", wire(field{1, "q"}, field{3, 1}, field{4, 1})))
			require.Equal(t, done, f.wired("/v1/queues.delete", wire(field{1, "q"})))
		})
	}
}

func TestReserveFamilyByItsJSON(t *testing.T) {
	for g, expire := range map[querator.Generation]string{querator.R1: "dead", querator.R2: "expire"} {
		t.Run(string(g), func(t *testing.T) {
			f := newFixture(t, querator.Options{Generation: g})
			f.ok("/v1/queues.create", `{"queue_name":"q","reserve_timeout":"1m","`+expire+`_timeout":"1h","requested_partitions":1}`)
			f.ok("/v1/queue.produce", produceBody(1))
			a := f.ok("/v1/queue.reserve", leaseBody("q", "c", 1, "1m"))
			item := a.items(t)[0]
			require.Equal(t, f.in(time.Minute), item["reserve_deadline"])
			require.NotContains(t, a.body, "lease")
			id, _ := item["id"].(string)
			stored := f.ok(itemsList, `{"queue_name":"q"}`)
			exact(t, `{"items":[{"id":"`+id+`","is_reserved":true,"reserve_deadline":"`+f.in(time.Minute)+`","`+expire+`_deadline":"`+f.in(time.Hour)+
				`","created_at":"`+f.in(0)+`","attempts":1,"reference":"r0","payload":"bTA="}]}`, stored.body)
			imported := f.ok("/v1/storage/items.import", `{"queue_name":"q","items":[{"is_reserved":true,"reserve_deadline":"`+f.in(time.Hour)+`","`+expire+`_deadline":"`+f.in(2*time.Hour)+`","payload":"eA=="}]}`)
			require.Contains(t, imported.body, `"is_reserved":true,"reserve_deadline":"`+f.in(time.Hour)+`","`+expire+`_deadline":"`+f.in(2*time.Hour)+`"`)
			f.ok("/v1/queue.defer", `{"queue_name":"q","items":[{"id":"`+id+`","enqueue_at":"`+f.in(time.Minute)+`"}]}`)
			f.ok("/v1/queue.clear", `{"queue_name":"q","Queue":true,"destructive":true}`)
			f.ok("/v1/queue.clear", `{"queue_name":"q","queue":true,"defer":true}`)
			require.Contains(t, f.ok("/v1/queue.stats", `{"queue_name":"q"}`).body, `"average_reserved_age":"0s"`)
			require.Equal(t, 501, f.post("/v1/queue.lease", leaseBody("q", "c", 1, "1m")).status)
			require.Equal(t, 455, f.post("/v1/queues.create", `{"queue_name":"p","lease_timeout":"1m"}`).status)
		})
	}
}
