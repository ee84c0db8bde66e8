package querator

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
	reservepb "github.com/leasehold/leasehold/adapters/querator/pb/reserve"
)

func FuzzDecodeClear(f *testing.F) {
	fuzzDecoder(f, func(c *call) error {
		_, err := c.decodeClear()
		return err
	}, []proto.Message{&leasepb.ClearRequestL1{QueueName: "q", Retry: true, Queue: true}},
		`{"queue_name":"q","Queue":true}`, `{"queue_name":"q","queue":true,"scheduled":true,"destructive":true}`, `{"defer":true}`, `{"retry":true}`)
}

func FuzzDecodeImport(f *testing.F) {
	fuzzDecoder(f, func(c *call) error {
		if c.auto() && c.in == encodeProtobuf {
			// The engine tells the family then.
			return nil
		}
		req, err := c.decodeImport()
		if err != nil {
			return err
		}
		for i := range req.items {
			it, err := req.items[i].forImport()
			if err == nil && req.items[i].leased && it.LeasedUntil <= 0 {
				t := it.LeasedUntil
				panic("a lease until " + t.Std().String())
			}
		}
		return nil
	}, []proto.Message{
		&leasepb.StorageImportRequest{QueueName: "q", Items: []*leasepb.StorageItem{{Id: "x", IsLeased: true, Payload: []byte("p")}}},
		&reservepb.StorageImportRequest{QueueName: "q", Items: []*reservepb.StorageItem{{Id: "x", IsReserved: true, Payload: []byte("p")}}},
	}, `{"queue_name":"q","items":[{"dead_deadline":"2030-01-01T00:00:00Z","payload":"aGk="}]}`, `{"items":[{"reserve_deadline":"0001-01-01T00:00:00Z"}]}`,
		`{"items":[{"is_leased":true,"lease_deadline":"9999-12-31T23:59:59.999999999Z","attempts":-1}]}`)
}

// FuzzRenameName requires that a renamed body says the same under the other name, and that one that
// is no JSON object is left alone.
func FuzzRenameName(f *testing.F) {
	for _, s := range append([]string{`{"name":"q"}`, `{"a":{"name":1},"name":2}`, `{"a":["name",{"name":1}],"b":"\"name\"" , "name" : "name"}`, `["name"]`, ` {"n":"name"}`}, jsonSeeds...) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := renameName(body)
		var before, after map[string]any
		if json.Unmarshal(body, &before) != nil || before == nil {
			return
		}
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatalf("%q became %q: %v", body, got, err)
		}
		// A name that is escaped is another spelling, and a doubled one an error of the decoder's.
		if reflect.DeepEqual(before, after) {
			return
		}
		want := maps.Clone(before)
		delete(want, "name")
		rest := maps.Clone(after)
		delete(rest, "name")
		delete(rest, "queue_name")
		delete(want, "queue_name")
		if !reflect.DeepEqual(want, rest) {
			t.Fatalf("%q became %q", body, got)
		}
	})
}
