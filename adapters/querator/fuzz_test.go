package querator

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	basepb "github.com/leasehold/leasehold/adapters/querator/pb/base"
	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
	reservepb "github.com/leasehold/leasehold/adapters/querator/pb/reserve"
)

// jsonSeeds are bodies that a JSON decoder may stumble over, whatever the message.
var jsonSeeds = []string{
	``, `{}`, `null`, `[]`, `{"queue_name":`, `{"queue_name":"q"}`, `{"queueName":"q","queue_name":"q"}`, `{} {}`, "\xff", `{"queue_name":"\ud800"}`,
	`{"queue_name":"q","partition":"1"}`, `{"partition":1e9999}`, `{"partition":99999999999}`, `{"partition":1.5}`, `{"queue_name":null}`,
}

// everyGenerationOrAuto is what a listener may be set to.
var everyGenerationOrAuto = []Generation{Auto, R1, R2, L1, L2}

// decodeFault fails the test when err is anything but the protocol's own decoding error.
func decodeFault(t *testing.T, err error) {
	t.Helper()
	var f *fault
	if err != nil && (!errors.As(err, &f) || f.code != codeClientContent) {
		t.Fatalf("not a decoding error: %v", err)
	}
}

// fuzzDecoder runs a decoder over bodies in both encodings and every generation.
func fuzzDecoder(f *testing.F, decode func(*call) error, messages []proto.Message, jsons ...string) {
	f.Helper()
	for i, s := range append(append([]string(nil), jsonSeeds...), jsons...) {
		f.Add([]byte(s), false, uint8(i))
	}
	for i, m := range messages {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, true, uint8(i))
	}
	f.Add([]byte{0xff, 0xff, 0xff}, true, uint8(0))
	f.Fuzz(func(t *testing.T, body []byte, protobuf bool, gen uint8) {
		g := everyGenerationOrAuto[int(gen)%len(everyGenerationOrAuto)]
		c := &call{server: &server{o: Options{Generation: g}.withDefaults()}, dialect: dialectOf(g), body: body}
		if protobuf {
			c.in = encodeProtobuf
		}
		decodeFault(t, decode(c))
	})
}

func FuzzDecodeClaim(f *testing.F) {
	fuzzDecoder(f, func(c *call) error {
		m, err := c.decodeClaim()
		if err != nil {
			return err
		}
		if _, err := c.checkClaim(m); err != nil && err.(*fault).code != codeBadRequest { //nolint:errorlint,forcetypeassert // a check fails with a fault
			return err
		}
		return nil
	}, []proto.Message{&basepb.ClaimRequest{QueueName: "q", ClientId: "c", BatchSize: 1, RequestTimeout: "30s"}},
		`{"queue_name":"q","client_id":"c","batch_size":2,"request_timeout":"30s"}`, `{"request_timeout":"-1h","client_id":"c","batch_size":1}`)
}

func FuzzDecodeComplete(f *testing.F) {
	fuzzDecoder(f, func(c *call) error { _, err := c.decodeComplete(); return err },
		[]proto.Message{&basepb.CompleteRequest{QueueName: "q", Partition: 1, RequestTimeout: "1m", Ids: []string{"a", "b"}}},
		`{"queue_name":"q","partition":0,"request_timeout":"5s","ids":["0ujtsYcgvSTl8PAuAdqWYSMnLOv"]}`, `{"ids":[1]}`, `{"ids":"x"}`)
}

func FuzzDecodeRetry(f *testing.F) {
	fuzzDecoder(f, func(c *call) error {
		req, err := c.decodeRetry()
		for i := 0; err == nil && i < len(req.items); i++ {
			_, err = dueAt(req.items[i].at, 0)
		}
		return err
	}, []proto.Message{
		&leasepb.RetryRequest{QueueName: "q", Items: []*leasepb.RetryItem{{Id: "x", RetryAt: &timestamppb.Timestamp{Seconds: 1}, Dead: true}}},
		&reservepb.DeferRequest{QueueName: "q", Items: []*reservepb.DeferItem{{Id: "x", EnqueueAt: &timestamppb.Timestamp{Nanos: -1}}}},
	}, `{"queue_name":"q","items":[{"id":"x","retry_at":"2026-11-29T17:14:16Z"}]}`, `{"queue_name":"q","items":[{"id":"x","enqueue_at":"2024-01-01 12:00:00.0000"}]}`)
}

func FuzzDecodeCreate(f *testing.F) {
	fuzzDecoder(f, func(c *call) error {
		req, err := c.decodeCreate()
		if err != nil {
			return err
		}
		if _, _, err := c.checkNameAndTimeouts(req); err != nil && err.(*fault).code != codeBadRequest { //nolint:errorlint,forcetypeassert // a check fails with a fault
			return err
		}
		return nil
	}, []proto.Message{
		&leasepb.QueueInfo{QueueName: "q", LeaseTimeout: "1m", ExpireTimeout: "10m", RequestedPartitions: 1, Namespace: "n"},
		&reservepb.QueueInfoR1{QueueName: "q", ReserveTimeout: "1m", DeadTimeout: "10m", RequestedPartitions: 1},
	}, `{"queue_name":"q","lease_timeout":"1m","expire_timeout":"10m","requested_partitions":1}`,
		`{"queue_name":"q","reserve_timeout":"1m","expire_timeout":"10m"}`, `{"queue_name":"q","reserve_timeout":"1m","dead_timeout":"10m","bogus":1}`)
}

func FuzzDecodeList(f *testing.F) {
	fuzzDecoder(f, func(c *call) error { _, err := c.decodeList(); return err },
		[]proto.Message{&leasepb.ListRequest{Pivot: "p", Limit: 3, Namespace: "n"}}, `{"pivot":"p","limit":"3","namespace":"n"}`)
}

func FuzzDecodeName(f *testing.F) {
	fuzzDecoder(f, func(c *call) error {
		return errors.Join(c.decode(&basepb.InfoRequest{}), c.decode(&basepb.StatsRequest{}), c.decode(&basepb.DeleteRequest{}))
	}, []proto.Message{&basepb.DeleteRequest{QueueName: "q", Force: true}}, `{"queue_name":"q","force":true}`)
}

func FuzzDecodeProduce(f *testing.F) {
	fuzzDecoder(f, func(c *call) error {
		if c.auto() && c.in == encodeProtobuf {
			// What the items leave open is asked of the engine; both answers are tried.
			for _, m := range []proto.Message{&leasepb.ProduceRequest{}, &reservepb.ProduceRequest{}} {
				itemFamily(c.body)
				if err := c.decode(m); err != nil {
					return err
				}
			}
			return nil
		}
		req, err := c.decodeProduce()
		if err != nil {
			return err
		}
		_, err = pushItems(req, 0)
		return err
	}, []proto.Message{
		&leasepb.ProduceRequest{QueueName: "q", Items: []*leasepb.ProduceItem{{Utf8: "u", EnqueueAt: &timestamppb.Timestamp{Seconds: 1}}}},
		&reservepb.ProduceRequest{QueueName: "q", Items: []*reservepb.ProduceItem{{Bytes: []byte("b"), Encoding: "json"}}},
	}, `{"queue_name":"q","request_timeout":"1m","items":[{"bytes":"Qg==","utf8":"U","encoding":"json"}]}`,
		`{"items":[{"bytes":"***"}]}`, `{"items":[{"enqueue_at":"9999-12-31T23:59:59.999999999Z"}]}`)
}
