package clients

import (
	"strings"
	"testing"
	"time"

	"github.com/duh-rpc/duh-go"
	client "github.com/kapetan-io/querator"
	pb "github.com/kapetan-io/querator/proto"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leasehold/leasehold/conformance/blackbox"
)

// Querator's own Go client takes items through their whole life: queues made and changed; items
// produced, leased, completed, given back, deferred, dead after their last attempt; the storage
// looked into, imported to and cleared; queues listed and deleted.
func TestQueratorClientLife(t *testing.T) {
	overStores(t, func(t *testing.T, s *blackbox.Server) {
		c, err := client.NewClient(client.WithNoTLS(strings.TrimPrefix(s.Querator, "http://")))
		require.NoError(t, err)
		l := &items{t, c, frozen(t, s)}
		l.create()
		l.produce()
		l.settle()
		l.die()
		l.store()
		l.end()
	})
}

type items struct {
	*testing.T
	*client.Client
	clock *blackbox.Clock
}

// fault requires an error with a code and a part of its message.
func (l *items) fault(err error, code int, message string) {
	l.Helper()
	var e duh.Error
	require.ErrorAs(l, err, &e)
	require.Equal(l, code, e.Code(), e.Message())
	require.Contains(l, e.Message(), message)
}

func (l *items) create() {
	l.Helper()
	ctx := l.Context()
	require.NoError(l, l.QueuesCreate(ctx, &pb.QueueInfo{QueueName: "dead", LeaseTimeout: "1m", ExpireTimeout: "24h", RequestedPartitions: 1}))
	q := &pb.QueueInfo{
		QueueName: "jobs", LeaseTimeout: "1m", ExpireTimeout: "24h", RequestedPartitions: 1, DeadQueue: "dead", MaxAttempts: 2, Reference: "team@example.com",
	}
	require.NoError(l, l.QueuesCreate(ctx, q))
	l.fault(l.QueuesCreate(ctx, q), duh.CodeBadRequest, "already exists")
	l.fault(l.QueuesCreate(ctx, &pb.QueueInfo{QueueName: "no partitions", LeaseTimeout: "1m", ExpireTimeout: "24h"}), duh.CodeBadRequest, "")
	info := l.info("jobs")
	require.Equal(l, "1m0s", info.LeaseTimeout)
	require.Equal(l, "24h0m0s", info.ExpireTimeout)
	require.Equal(l, "dead", info.DeadQueue)
	require.Equal(l, "team@example.com", info.Reference)
	require.EqualValues(l, 2, info.MaxAttempts)
	require.EqualValues(l, 1, info.RequestedPartitions)
	require.Equal(l, start, info.CreatedAt.AsTime())
}

func (l *items) info(queue string) *pb.QueueInfo {
	l.Helper()
	var info pb.QueueInfo
	require.NoError(l, l.QueuesInfo(l.Context(), &pb.QueuesInfoRequest{QueueName: queue}, &info))
	return &info
}

func (l *items) produce() {
	l.Helper()
	require.NoError(l, l.QueueProduce(l.Context(), &pb.QueueProduceRequest{QueueName: "jobs", RequestTimeout: "1m", Items: []*pb.QueueProduceItem{
		{Encoding: "application/xml", Kind: "webhook", Reference: "one", Utf8: "<key>välue</key>\n"},
		{Reference: "two", Bytes: []byte("\x00\xff\r\n")},
		{Reference: "three", Utf8: "3"},
		{Reference: "later", Utf8: "x", EnqueueAt: timestamppb.New(start.Add(time.Hour))},
	}}))
	l.fault(l.QueueProduce(l.Context(), &pb.QueueProduceRequest{QueueName: "none", RequestTimeout: "1m", Items: []*pb.QueueProduceItem{{Utf8: "x"}}}),
		duh.CodeBadRequest, "no such queue")
	var stats pb.QueueStatsResponse
	require.NoError(l, l.QueueStats(l.Context(), &pb.QueueStatsRequest{QueueName: "jobs"}, &stats))
	p := stats.LogicalQueues[0].Partitions[0]
	require.EqualValues(l, 3, p.Total)
	require.Zero(l, p.TotalLeased)
}

// lease leases what there is, up to ten items, and returns them by reference. The clock stands
// still, so nothing is waited for: there must be an item.
func (l *items) lease(queue string) map[string]*pb.QueueLeaseItem {
	l.Helper()
	var res pb.QueueLeaseResponse
	require.NoError(l, l.QueueLease(l.Context(), &pb.QueueLeaseRequest{QueueName: queue, ClientId: "tester", BatchSize: 10, RequestTimeout: "30s"}, &res))
	require.Equal(l, queue, res.QueueName)
	out := map[string]*pb.QueueLeaseItem{}
	for _, item := range res.Items {
		out[item.Reference] = item
	}
	require.Len(l, out, len(res.Items))
	return out
}

func (l *items) complete(queue string, ids ...string) error {
	return l.QueueComplete(l.Context(), &pb.QueueCompleteRequest{QueueName: queue, RequestTimeout: "1m", Ids: ids})
}

func (l *items) settle() {
	l.Helper()
	got := l.lease("jobs")
	require.Len(l, got, 3)
	require.Equal(l, "<key>välue</key>\n", string(got["one"].Bytes))
	require.Equal(l, "application/xml", got["one"].Encoding)
	require.Equal(l, "webhook", got["one"].Kind)
	require.Equal(l, "\x00\xff\r\n", string(got["two"].Bytes))
	for _, item := range got {
		require.EqualValues(l, 1, item.Attempts)
		require.Equal(l, start.Add(time.Minute), item.LeaseDeadline.AsTime())
	}
	require.NoError(l, l.complete("jobs", got["one"].Id))
	l.fault(l.complete("jobs", got["one"].Id), duh.CodeBadRequest, "does not exist")
	require.NoError(l, l.QueueRetry(l.Context(), &pb.QueueRetryRequest{QueueName: "jobs", Items: []*pb.QueueRetryItem{
		{Id: got["two"].Id},
		{Id: got["three"].Id, RetryAt: timestamppb.New(start.Add(10 * time.Second))},
	}}))
	l.fault(l.complete("jobs", got["two"].Id), duh.CodeBadRequest, "")
	again := l.lease("jobs")
	require.Len(l, again, 1)
	require.EqualValues(l, 2, again["two"].Attempts)
	require.NoError(l, l.complete("jobs", again["two"].Id))
	l.clock.Advance(l, 10*time.Second)
}

// die lets the last attempt's lease run out, and sends another item to the dead queue by hand.
func (l *items) die() {
	l.Helper()
	got := l.lease("jobs")
	require.Len(l, got, 1)
	require.EqualValues(l, 2, got["three"].Attempts)
	l.clock.Advance(l, time.Minute)
	dead := l.lease("dead")
	require.Len(l, dead, 1)
	require.Equal(l, "3", string(dead["three"].Bytes))
	require.NoError(l, l.complete("dead", dead["three"].Id))
	l.fault(l.complete("jobs", got["three"].Id), duh.CodeBadRequest, "")

	l.clock.Advance(l, time.Hour)
	later := l.lease("jobs")
	require.Len(l, later, 1)
	require.NoError(l, l.QueueRetry(l.Context(), &pb.QueueRetryRequest{QueueName: "jobs", Items: []*pb.QueueRetryItem{{Id: later["later"].Id, Dead: true}}}))
	var list pb.StorageItemsListResponse
	require.NoError(l, l.StorageItemsList(l.Context(), "dead", 0, &list, nil))
	require.Len(l, list.Items, 1)
	require.Equal(l, "later", list.Items[0].Reference)
	require.Equal(l, "x", string(list.Items[0].Payload))
}

// store looks into the storage, imports, deletes and clears.
func (l *items) store() {
	l.Helper()
	ctx := l.Context()
	var made pb.StorageItemsImportResponse
	require.NoError(l, l.StorageItemsImport(ctx, &pb.StorageItemsImportRequest{QueueName: "jobs", Items: []*pb.StorageItem{
		{Reference: "imported", Payload: []byte("i"), MaxAttempts: 5, ExpireDeadline: timestamppb.New(start.Add(24 * time.Hour))},
	}}, &made))
	require.Len(l, made.Items, 1)
	require.NoError(l, l.QueueProduce(ctx, &pb.QueueProduceRequest{QueueName: "jobs", RequestTimeout: "1m", Items: []*pb.QueueProduceItem{
		{Reference: "scheduled", Utf8: "s", EnqueueAt: timestamppb.New(start.Add(5 * time.Hour))}, {Reference: "kept", Utf8: "k"},
	}}))
	var list pb.StorageItemsListResponse
	require.NoError(l, l.StorageItemsList(ctx, "jobs", 0, &list, nil))
	require.Len(l, list.Items, 2)
	require.NoError(l, l.StorageItemsDelete(ctx, &pb.StorageItemsDeleteRequest{QueueName: "jobs", Ids: client.CollectIDs(made.Items)}))
	left := l.lease("jobs")
	require.Len(l, left, 1)
	require.Contains(l, left, "kept")
	list.Reset()
	require.NoError(l, l.StorageScheduledList(ctx, "jobs", 0, &list, nil))
	require.Len(l, list.Items, 1)
	require.Equal(l, "scheduled", list.Items[0].Reference)
	require.NoError(l, l.QueueClear(ctx, &pb.QueueClearRequest{QueueName: "jobs", Scheduled: true}))
	require.NoError(l, l.QueueClear(ctx, &pb.QueueClearRequest{QueueName: "jobs", Queue: true, Destructive: true}))
	for _, look := range []func() error{
		func() error { return l.StorageScheduledList(ctx, "jobs", 0, &list, nil) },
		func() error { return l.StorageItemsList(ctx, "jobs", 0, &list, nil) },
	} {
		list.Reset()
		require.NoError(l, look())
		require.Empty(l, list.Items)
	}
}

func (l *items) end() {
	l.Helper()
	ctx := l.Context()
	require.NoError(l, l.QueuesUpdate(ctx, &pb.QueueInfo{QueueName: "jobs", LeaseTimeout: "2m", MaxAttempts: 4, DeadQueue: "dead"}))
	require.Equal(l, "2m0s", l.info("jobs").LeaseTimeout)
	var list pb.QueuesListResponse
	require.NoError(l, l.QueuesList(ctx, &list, &client.ListOptions{Limit: 10}))
	require.Len(l, list.Items, 2)
	require.NoError(l, l.QueuesDelete(ctx, &pb.QueuesDeleteRequest{QueueName: "jobs"}))
	require.NoError(l, l.QueuesDelete(ctx, &pb.QueuesDeleteRequest{QueueName: "dead", Force: true}))
	l.fault(l.QueuesInfo(ctx, &pb.QueuesInfoRequest{QueueName: "jobs"}, &pb.QueueInfo{}), duh.CodeBadRequest, "no such queue named 'jobs'")
	list.Reset()
	require.NoError(l, l.QueuesList(ctx, &list, nil))
	require.Empty(l, list.Items)
}
