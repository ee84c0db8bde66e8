package querator

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	basepb "github.com/leasehold/leasehold/adapters/querator/pb/base"
	"github.com/leasehold/leasehold/core"
)

// storedItem is an item as the storage routes show it, and as an import gives it.
type storedItem struct {
	id, source                           string
	leased                               bool
	leaseDeadline, expireDeadline, added time.Time
	attempts, maxAttempts                int32
	reference, encoding, kind            string
	payload                              []byte
}

// listItems is storage/items.list: what is queued or leased, by id.
func listItems(c *call) (reply, error) {
	m, q, p, err := c.decodeStorageList()
	if err != nil {
		return nil, err
	}
	page, err := c.page(m, p)
	if err != nil {
		return nil, err
	}
	if err := c.readItems(page, false); err != nil {
		return nil, err
	}
	return &storageReply{dialect: c.dialectFor(&q), items: page.items}, nil
}

// listScheduled is storage/scheduled.list: retries for later, and then what its producer
// scheduled, by id.
func listScheduled(c *call) (reply, error) {
	m, q, p, err := c.decodeStorageList()
	if err != nil {
		return nil, err
	}
	page, err := c.page(m, p)
	if err != nil {
		return nil, err
	}
	if err := c.readItems(page, true); err != nil {
		return nil, err
	}
	if err := c.readScheduled(page); err != nil {
		return nil, err
	}
	return &storageReply{dialect: c.dialectFor(&q), items: page.items}, nil
}

// decodeStorageList reads the body of both lists and finds what they list.
func (c *call) decodeStorageList() (*basepb.StorageListRequest, core.Queue, core.Partition, error) {
	m := &basepb.StorageListRequest{}
	if err := c.decode(m); err != nil {
		return nil, core.Queue{}, core.Partition{}, err
	}
	q, p, err := c.storagePartition(m.QueueName, m.Partition)
	return m, q, p, err
}

// storagePartition finds a queue and one of its partitions. Unlike the routes of the queue, those of
// the storage never meant that a partition could have moved.
func (c *call) storagePartition(name string, number int32) (core.Queue, core.Partition, error) {
	q, err := c.lookup(name)
	if err != nil {
		return core.Queue{}, core.Partition{}, err
	}
	p, err := c.engine.PartitionAt(c.ctx, name, number)
	if core.CodeOf(err) == core.CodeNoPartition && err != nil {
		return core.Queue{}, core.Partition{}, badPartition(strconv.Itoa(int(number)))
	}
	if err != nil {
		return core.Queue{}, core.Partition{}, c.failed(operation{queue: name}, err)
	}
	return q, p, nil
}

// storagePage is a page of a list being filled.
type storagePage struct {
	queue     string
	ordinal   int32
	partition core.Partition
	limit     int
	// pivot is the least id of the page in its bytes; all zero is none. known tells that it is an
	// id of this partition, or the one just before, so that the place in it can be sought.
	pivot [ksuidBytes]byte
	known bool
	items []storedItem
}

// page makes an empty page. A pivot must be well-formed and need not exist.
func (c *call) page(m *basepb.StorageListRequest, p core.Partition) (*storagePage, error) {
	page := &storagePage{queue: m.QueueName, ordinal: m.Partition, partition: p, limit: int(m.Limit), known: true}
	switch {
	case m.Limit == 0:
		page.limit = defaultListLimit
	case m.Limit < 0:
		page.limit = 0
	}
	if m.Pivot == "" {
		return page, nil
	}
	k, err := parseKSUID(m.Pivot)
	if err != nil {
		return nil, malformedID(m.Pivot, err)
	}
	page.pivot = k
	page.known = c.ids.gave(p.ID, &k)
	return page, nil
}

// readChunk is how many items are read at once where a page has to be sought in all of them.
const readChunk = 1000

// readItems fills a page with items of the log: those retried for later, or all others.
func (c *call) readItems(page *storagePage, later bool) error {
	x := core.ItemsParams{Queue: page.queue, Ordinal: page.ordinal, Later: later}
	if page.known {
		place := placeIn(&page.pivot)
		if place.scheduled() {
			return nil
		}
		x.From = core.ItemRef{Turn: core.Turn(place.turn), Offset: place.offset, Second: place.second}
	}
	for len(page.items) < page.limit {
		x.Limit = page.limit - len(page.items)
		if !page.known {
			x.Limit = max(x.Limit, readChunk)
		}
		got, err := c.engine.Items(c.ctx, x)
		if err != nil {
			return c.failed(operation{queue: page.queue, partition: strconv.Itoa(int(page.ordinal))}, err)
		}
		for i := range got {
			place := itemPlace{second: got[i].TurnAt.Second(), turn: uint64(got[i].Turn), offset: got[i].Offset}
			c.add(page, place, shown(&got[i]))
		}
		if len(got) < x.Limit {
			return nil
		}
		last := &got[len(got)-1]
		x.From = core.ItemRef{Turn: last.Turn, Offset: last.Offset + 1}
	}
	return nil
}

// add appends an item to the page, unless it stands before the pivot or the page is full.
func (c *call) add(page *storagePage, place itemPlace, item storedItem) {
	k := c.ids.bytes(page.partition.ID, place)
	if len(page.items) >= page.limit || string(k[:]) < string(page.pivot[:]) {
		return
	}
	item.id = string(appendKSUID(nil, &k))
	page.items = append(page.items, item)
}

// shown makes an item of the log presentable.
func shown(it *core.Item) storedItem {
	out := storedOf(&it.Message)
	out.attempts = it.Attempts
	switch {
	case it.Leased:
		out.leased, out.leaseDeadline = true, it.Until.Std()
	case it.Imported && it.Turn == core.OwnTurn(it.Offset):
		// What was imported without a deadline shows the epoch until it is leased.
		out.leaseDeadline = time.Unix(0, 0)
	}
	return out
}

// storedOf is what a message alone says of an item.
func storedOf(m *core.Message) storedItem {
	return storedItem{
		source: m.SourceID, added: m.CreatedAt.Std(), attempts: m.Attempts, payload: m.Payload,
		reference: m.Reference, encoding: encodingLabel(&m.Labels), kind: m.Kind, expireDeadline: noTime(m.ExpiresAt),
	}
}

// noTime is a time of the engine, in which zero is none, as a reply shows it.
func noTime(t core.Time) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return t.Std()
}

// readPushes is how many delayed pushes are read at once; each may hold a thousand items.
const readPushes = 16

// readScheduled goes on filling a page with what is not in the log yet.
func (c *call) readScheduled(page *storagePage) error {
	after := int64(0)
	if place := placeIn(&page.pivot); page.known && place.scheduled() {
		after = place.sequence() - 1
	}
	for len(page.items) < page.limit {
		got, err := c.engine.ScheduledItems(c.ctx, page.queue, page.ordinal, after, readPushes)
		if err != nil {
			return c.failed(operation{queue: page.queue, partition: strconv.Itoa(int(page.ordinal))}, err)
		}
		if len(got) == 0 {
			return nil
		}
		for i := range got {
			c.add(page, scheduledPlace(got[i].Seq, got[i].Index), storedOf(&got[i].Message))
		}
		after = got[len(got)-1].Seq
	}
	return nil
}

// deleteItems is storage/items.delete: what is there goes, in whatever state, and the rest is
// passed over. An id that is none changes nothing.
func deleteItems(c *call) (reply, error) {
	var m basepb.StorageDeleteRequest
	if err := c.decode(&m); err != nil {
		return nil, err
	}
	_, p, err := c.storagePartition(m.QueueName, m.Partition)
	if err != nil {
		return nil, err
	}
	if len(m.Ids) == 0 {
		return nil, cannotBeEmpty("ids")
	}
	x := core.DiscardParams{Queue: m.QueueName, Ordinal: m.Partition}
	for _, id := range m.Ids {
		place, ok, err := c.ids.parse(id, p.ID)
		switch {
		case err != nil:
			return nil, malformedID(id, err)
		case !ok:
		case place.scheduled():
			x.Scheduled = append(x.Scheduled, core.ScheduledRef{Seq: place.sequence(), Index: int(place.offset)})
		default:
			x.Items = append(x.Items, core.ItemRef{Offset: place.offset, Turn: core.Turn(place.turn), Second: place.second})
		}
	}
	if err := c.engine.Discard(c.ctx, x); err != nil {
		return nil, c.failed(operation{queue: m.QueueName, partition: strconv.Itoa(int(m.Partition))}, err)
	}
	return okReply{}, nil
}

// timeOf reads a time of a request; none is the Unix epoch, as every build shows it.
func timeOf(t *timestamppb.Timestamp) time.Time { return t.AsTime() }
