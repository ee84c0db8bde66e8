package querator_test

import (
	"context"
	"encoding/base64"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/duh-rpc/duh-go"
	client "github.com/kapetan-io/querator"
	pb "github.com/kapetan-io/querator/proto"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leasehold/leasehold/adapters/querator"
	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
	reservepb "github.com/leasehold/leasehold/adapters/querator/pb/reserve"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/memory"
	"github.com/leasehold/leasehold/store/sqlite"
)

// official returns the official Go client of a listener on a real connection.
func (f *fixture) official() *client.Client {
	f.t.Helper()
	server := httptest.NewServer(f.handler)
	f.t.Cleanup(server.Close)
	c, err := client.NewClient(client.WithNoTLS(strings.TrimPrefix(server.URL, "http://")))
	require.NoError(f.t, err)
	return c
}

// requireFault requires an error of the official client with a code and a message.
func requireFault(t *testing.T, err error, code int, message string) {
	t.Helper()
	var e duh.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code())
	require.Equal(t, message, e.Message())
}

func TestOfficialClientTakesAnItemThroughItsLife(t *testing.T) {
	stores := map[string]func() core.Store{
		"memory": func() core.Store { return memory.New() },
		"sqlite": func() core.Store {
			s, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
			require.NoError(t, err)
			return s
		},
	}
	for name, open := range stores {
		for _, g := range []querator.Generation{querator.Auto, querator.L1, querator.L2} {
			t.Run(name+"/"+string(g), func(t *testing.T) {
				f := newFixtureOn(t, open(), querator.Options{Generation: g})
				c := f.official()
				f.clientCreates(c)
				f.clientProducesAndLeases(c)
				f.clientSettles(c)
				f.clientManages(c)
				f.clientDeletes(c)
			})
		}
	}
}

// clientManages updates the queue, and looks into and empties its storage.
func (f *fixture) clientManages(c *client.Client) {
	t, ctx := f.t, f.t.Context()
	t.Helper()
	require.NoError(t, c.QueuesUpdate(ctx, &pb.QueueInfo{QueueName: "q", LeaseTimeout: "2m", MaxAttempts: 4, DeadQueue: "dead"}))
	var info pb.QueueInfo
	require.NoError(t, c.QueuesInfo(ctx, &pb.QueuesInfoRequest{QueueName: "q"}, &info))
	require.Equal(t, "2m0s", info.LeaseTimeout)
	require.Equal(t, "24h0m0s", info.ExpireTimeout)
	require.Equal(t, int32(4), info.MaxAttempts)

	var list pb.StorageItemsListResponse
	require.NoError(t, c.StorageItemsList(ctx, "q", 0, &list, nil))
	require.Len(t, list.Items, 1)
	require.True(t, list.Items[0].IsLeased)
	require.Equal(t, "later", list.Items[0].Reference)
	list.Reset()
	require.NoError(t, c.StorageItemsList(ctx, "dead", 0, &list, nil))
	require.Equal(t, "two", list.Items[0].Reference)
	require.NotEmpty(t, list.Items[0].SourceId)

	require.NoError(t, c.QueueProduce(ctx, &pb.QueueProduceRequest{QueueName: "q", RequestTimeout: "1m", Items: []*pb.QueueProduceItem{
		{Reference: "scheduled", Utf8: "x", EnqueueAt: timestamppb.New(f.clock.Now().Std().Add(time.Hour))},
	}}))
	list.Reset()
	require.NoError(t, c.StorageScheduledList(ctx, "q", 0, &list, nil))
	require.Len(t, list.Items, 1)
	require.Equal(t, "scheduled", list.Items[0].Reference)
	require.NoError(t, c.StorageItemsDelete(ctx, &pb.StorageItemsDeleteRequest{QueueName: "q", Ids: client.CollectIDs(list.Items)}))
	require.NoError(t, c.QueueClear(ctx, &pb.QueueClearRequest{QueueName: "q", Queue: true, Destructive: true}))
	require.NoError(t, c.QueueClear(ctx, &pb.QueueClearRequest{QueueName: "q", Scheduled: true}))
	list.Reset()
	require.NoError(t, c.StorageScheduledList(ctx, "q", 0, &list, nil))
	require.Empty(t, list.Items)
	list.Reset()
	require.NoError(t, c.StorageItemsList(ctx, "q", 0, &list, nil))
	require.Empty(t, list.Items)
}

func (f *fixture) clientCreates(c *client.Client) {
	t, ctx := f.t, f.t.Context()
	t.Helper()
	require.NoError(t, c.QueuesCreate(ctx, &pb.QueueInfo{QueueName: "dead", LeaseTimeout: "1m", ExpireTimeout: "24h", RequestedPartitions: 1}))
	require.NoError(t, c.QueuesCreate(ctx, &pb.QueueInfo{
		QueueName: "q", LeaseTimeout: "1m", ExpireTimeout: "24h", RequestedPartitions: 1,
		DeadQueue: "dead", MaxAttempts: 3, Reference: "jake@statefarm.com",
	}))
	var info pb.QueueInfo
	require.NoError(t, c.QueuesInfo(ctx, &pb.QueuesInfoRequest{QueueName: "q"}, &info))
	require.Equal(t, "dead", info.DeadQueue)
	require.Equal(t, "1m0s", info.LeaseTimeout)
	require.Equal(t, "24h0m0s", info.ExpireTimeout)
	require.Equal(t, int32(3), info.MaxAttempts)
	require.Equal(t, "jake@statefarm.com", info.Reference)
	require.Equal(t, f.clock.Now().Std(), info.CreatedAt.AsTime())
}

// clientLeases leases up to ten items of q.
func (f *fixture) clientLeases(c *client.Client) []*pb.QueueLeaseItem {
	f.t.Helper()
	var res pb.QueueLeaseResponse
	require.NoError(f.t, c.QueueLease(f.t.Context(), &pb.QueueLeaseRequest{QueueName: "q", ClientId: "c", BatchSize: 10, RequestTimeout: "30s"}, &res))
	require.Equal(f.t, "q", res.QueueName)
	require.Zero(f.t, res.Partition)
	return res.Items
}

func (f *fixture) clientProducesAndLeases(c *client.Client) {
	t, ctx := f.t, f.t.Context()
	t.Helper()
	require.NoError(t, c.QueueProduce(ctx, &pb.QueueProduceRequest{QueueName: "q", RequestTimeout: "1m", Items: []*pb.QueueProduceItem{
		{Encoding: "application/json", Kind: "webhook-v2", Reference: "one", Utf8: `{"key":"value"}`},
		{Reference: "two", Bytes: []byte("\x00\xff")},
		{Reference: "later", Utf8: "x", EnqueueAt: timestamppb.New(f.clock.Now().Std().Add(time.Hour))},
	}}))
	items := f.clientLeases(c)
	require.Len(t, items, 2)
	require.Equal(t, "application/json", items[0].Encoding)
	require.Equal(t, "webhook-v2", items[0].Kind)
	exact(t, `{"key":"value"}`, string(items[0].Bytes))
	require.Equal(t, "\x00\xff", string(items[1].Bytes))
	require.Equal(t, int32(1), items[0].Attempts)
	require.Equal(t, f.clock.Now().Std().Add(time.Minute), items[0].LeaseDeadline.AsTime())

	var stats pb.QueueStatsResponse
	require.NoError(t, c.QueueStats(ctx, &pb.QueueStatsRequest{QueueName: "q"}, &stats))
	require.Equal(t, int32(2), stats.LogicalQueues[0].Partitions[0].Total)
	require.Equal(t, int32(2), stats.LogicalQueues[0].Partitions[0].TotalLeased)

	require.NoError(t, c.QueueRetry(ctx, &pb.QueueRetryRequest{QueueName: "q", Items: []*pb.QueueRetryItem{{Id: items[1].Id}}}))
	requireFault(t, c.QueueComplete(ctx, &pb.QueueCompleteRequest{QueueName: "q", RequestTimeout: "1m", Ids: client.CollectIDs(items)}),
		400, "invalid storage id; '"+items[1].Id+"' does not exist")
	require.NoError(t, c.QueueComplete(ctx, &pb.QueueCompleteRequest{QueueName: "q", RequestTimeout: "1m", Ids: []string{items[0].Id}}))
}

func (f *fixture) clientSettles(c *client.Client) {
	t := f.t
	t.Helper()
	items := f.clientLeases(c)
	require.Len(t, items, 1)
	require.Equal(t, "two", items[0].Reference)
	require.Equal(t, int32(2), items[0].Attempts)
	require.NoError(t, c.QueueRetry(t.Context(), &pb.QueueRetryRequest{QueueName: "q", Items: []*pb.QueueRetryItem{{Id: items[0].Id, Dead: true}}}))
	f.clock.Advance(time.Hour)
	require.Equal(t, "later", f.clientLeases(c)[0].Reference)
}

func (f *fixture) clientDeletes(c *client.Client) {
	t, ctx := f.t, f.t.Context()
	t.Helper()
	var list pb.QueuesListResponse
	require.NoError(t, c.QueuesList(ctx, &list, &client.ListOptions{Pivot: "e"}))
	require.Len(t, list.Items, 1)
	require.Equal(t, "q", list.Items[0].QueueName)
	require.NoError(t, c.QueuesDelete(ctx, &pb.QueuesDeleteRequest{QueueName: "q"}))
	requireFault(t, c.QueuesInfo(ctx, &pb.QueuesInfoRequest{QueueName: "q"}, &pb.QueueInfo{}),
		400, "queue does not exist; no such queue named 'q'")
}

func TestOfficialClientSees454(t *testing.T) {
	f := newFixture(t, querator.Options{})
	c := f.official()
	f.create("q")
	got := make(chan error, 1)
	go func() {
		got <- c.QueueLease(t.Context(), &pb.QueueLeaseRequest{QueueName: "q", ClientId: "c", BatchSize: 1, RequestTimeout: "1s"}, &pb.QueueLeaseResponse{})
	}()
	f.waiting("q", 1)
	f.clock.Advance(time.Second)
	err := soon(t, got)
	requireFault(t, err, 454, client.MsgRequestTimeout)
	require.Contains(t, err.Error(), "Retry Request")
}

func TestLeaseOverProtobufFitsTheReserveFamily(t *testing.T) {
	// Claims are byte for byte alike in both families: the newer client's messages read the
	// older route's replies.
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", produceBody(1))

	a := f.do("POST", "/v1/queue.reserve", "\n\x01q\x10\x01\x1a\x01c\"\x021m", "Content-Type", "application/protobuf")

	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, "application/protobuf", a.header.Get("Content-Type"))
	require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
	var res pb.QueueLeaseResponse
	require.NoError(t, proto.Unmarshal([]byte(a.body), &res))
	require.Equal(t, "r0", res.Items[0].Reference)
}

func TestMessagesOfOtherProtocolsAreItems(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	for _, m := range []core.NewMessage{
		{Labels: core.Labels{ContentType: core.ContentJSON}, Payload: []byte(`{ "b":1.50, "a" : "<&>" }`)},
		{Labels: core.Labels{ContentType: core.ContentText, Encoding: "text", Kind: "not \xff UTF-8"}, Payload: []byte("t")},
		{Labels: core.Labels{ContentType: core.ContentBytes, Encoding: "bytes"}, Payload: []byte{0}},
	} {
		_, err := f.engine.Push(context.Background(), core.PushParams{Protocol: core.ProtocolQueen, Items: []core.PushItem{{Queue: "q", NewMessage: m}}})
		require.NoError(t, err)
	}

	_, _, items := f.lease("q", 10)

	require.Len(t, items, 3)
	require.Equal(t, "json", items[0]["encoding"])
	require.Equal(t, "eyAiYiI6MS41MCwgImEiIDogIjwmPiIgfQ==", items[0]["bytes"], "byte for byte")
	require.Equal(t, "text", items[1]["encoding"])
	require.Equal(t, "not \uFFFD UTF-8", items[1]["kind"])
	require.Equal(t, "AA==", items[2]["bytes"])
}

func TestItemsHaveAContentType(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", `{"queue_name":"q","request_timeout":"1m","items":[
		{"encoding":"application/json","utf8":"{\"n\":1}"},{"encoding":"JSON","bytes":"W10="},{"encoding":"application/x+json; v=1","utf8":"1"},
		{"encoding":"json","utf8":"{broken"},{"utf8":"{}"},{"bytes":"e30="},{"encoding":"json"},{"encoding":"json","bytes":"Iv8i"}]}`)

	got, err := f.engine.Claim(t.Context(), core.ClaimParams{Protocol: core.ProtocolCloudflare, Queue: "q", Messages: 10})

	require.NoError(t, err)
	types := make([]core.ContentType, 0, 8)
	for _, d := range got.Partitions[0].Messages {
		types = append(types, d.ContentType)
	}
	require.Equal(t, []core.ContentType{
		core.ContentJSON, core.ContentJSON, core.ContentJSON,
		core.ContentText, core.ContentText, core.ContentBytes, core.ContentBytes, core.ContentBytes,
	}, types)
}

// requireRoundTrip produces a payload through the official client and requires the same bytes back, in both encodings.
func requireRoundTrip(t *testing.T, f *fixture, c *client.Client, payload string) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, c.QueueProduce(ctx, &pb.QueueProduceRequest{QueueName: "q", RequestTimeout: "1m", Items: []*pb.QueueProduceItem{
		{Bytes: []byte(payload), Encoding: "json"}, {Bytes: []byte(payload)},
	}}))
	var res pb.QueueLeaseResponse
	require.NoError(t, c.QueueLease(ctx, &pb.QueueLeaseRequest{QueueName: "q", ClientId: "c", BatchSize: 1, RequestTimeout: "1m"}, &res))
	require.Equal(t, payload, string(res.Items[0].Bytes))
	items := f.ok("/v1/queue.lease", leaseBody("q", "c", 1, "1m")).items(t)
	got, _ := items[0]["bytes"].(string)
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte(payload)), got)
	require.Equal(t, "json", res.Items[0].Encoding)
	require.NotContains(t, items[0], "encoding")
}

func TestQueuesOfOtherProtocols(t *testing.T) {
	for name, partitions := range map[string]int{"with a partition": 1, "that nobody pushed to": 0} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, querator.Options{})
			_, err := f.engine.CreateQueue(t.Context(), core.Queue{Name: "q", Origin: core.ProtocolQueen}, partitions)
			require.NoError(t, err)
			waiter := f.later(t.Context(), "/v1/queue.lease", leaseBody("q", "early", 1, "1m"))
			f.waiting("q", 1)

			f.ok("/v1/queue.produce", produceBody(3))

			require.Len(t, soon(t, waiter).items(t), 1)
			refs, ids, items := f.lease("q", 10)
			require.Equal(t, []string{"r1", "r2"}, refs)
			require.Equal(t, f.clock.Now().Std().Add(time.Minute).Format(time.RFC3339), items[0]["lease_deadline"])
			f.ok("/v1/queue.complete", completeBody("q", ids["r1"], ids["r2"]))
			info := f.ok("/v1/queues.info", `{"queue_name":"q"}`).body
			require.Contains(t, info, `"lease_timeout":"1m0s"`)
			require.Contains(t, info, `"requested_partitions":1`)
			require.NotContains(t, info, "expire_timeout", "nothing expires there")
			require.Contains(t, f.ok("/v1/queues.list", `{}`).body, `"queue_name":"q"`)
		})
	}
}

func TestExclusiveAndSharedClaimsShareAQueue(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", produceBody(4))
	_, ids, _ := f.lease("q", 2)

	popped, err := f.engine.Claim(t.Context(), core.ClaimParams{Protocol: core.ProtocolQueen, Exclusive: true, Queue: "q", Messages: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Equal(t, "m2", string(popped.Partitions[0].Messages[0].Payload))
	waiter := f.later(t.Context(), "/v1/queue.lease", leaseBody("q", "c2", 1, "1m"))
	f.waiting("q", 1)
	f.ok("/v1/queue.complete", completeBody("q", ids["r0"], ids["r1"]))
	acked, err := f.engine.Ack(t.Context(), []core.Ack{{
		Partition: popped.Partitions[0].Partition.ID, TransactionID: popped.Partitions[0].Messages[0].Transaction(),
		Group: core.QueueModeGroup, Status: core.AckCompleted, Lease: popped.Lease,
	}})
	require.NoError(t, err)
	require.NoError(t, acked[0].Err)
	require.True(t, acked[0].Released)

	require.Equal(t, "r3", soon(t, waiter).items(t)[0]["reference"])
}

func TestProduceInProtobufOfBothFamilies(t *testing.T) {
	lease := &leasepb.ProduceRequest{QueueName: "q", RequestTimeout: "1m", Items: []*leasepb.ProduceItem{{Bytes: []byte("b"), Reference: "x"}, {Utf8: "u"}}}
	reserve := &reservepb.ProduceRequest{QueueName: "q", RequestTimeout: "1m", Items: []*reservepb.ProduceItem{{Bytes: []byte("b"), Reference: "x"}, {Utf8: "u"}}}
	for name, tt := range map[string]struct {
		generation querator.Generation
		message    proto.Message
	}{
		"lease items, guessed": {querator.Auto, lease}, "reserve items, guessed": {querator.Auto, reserve},
		"lease items": {querator.L2, lease}, "reserve items": {querator.R2, reserve},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, querator.Options{Generation: tt.generation})
			_, err := f.engine.CreateQueue(t.Context(), core.Queue{Name: "q", Origin: core.ProtocolQuerator}, 1)
			require.NoError(t, err)
			body, err := proto.Marshal(tt.message)
			require.NoError(t, err)

			a := f.do("POST", "/v1/queue.produce", string(body), "Content-Type", "application/protobuf")

			require.Equal(t, 200, a.status, a.body)
			require.Equal(t, "\b\xc8\x01", a.body)
			got, err := f.engine.Claim(t.Context(), core.ClaimParams{Protocol: core.ProtocolQuerator, Queue: "q", Messages: 5})
			require.NoError(t, err)
			first, second := got.Partitions[0].Messages[0], got.Partitions[0].Messages[1]
			require.Equal(t, "b", string(first.Payload))
			require.Equal(t, core.ContentBytes, first.ContentType)
			require.Equal(t, "x", first.Reference)
			require.Equal(t, "u", string(second.Payload))
			require.Equal(t, core.ContentText, second.ContentType)
		})
	}
}
