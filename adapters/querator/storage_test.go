package querator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/kapetan-io/querator"
	pb "github.com/kapetan-io/querator/proto"
	"github.com/segmentio/ksuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leasehold/leasehold/adapters/querator"
)

// stored returns the ids and references of a storage list.
func (f *fixture) stored(path, more string) (ids, refs []string) {
	f.t.Helper()
	for _, it := range f.ok(path, `{"queue_name":"q"`+more+`}`).items(f.t) {
		id, _ := it["id"].(string)
		ref, _ := it["reference"].(string)
		ids, refs = append(ids, id), append(refs, ref)
	}
	return ids, refs
}

const (
	itemsList     = "/v1/storage/items.list"
	scheduledList = "/v1/storage/scheduled.list"
)

func TestStoredItemsAreListedInTheOrderOfTheQueue(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", produceBody(4))
	_, held, _ := f.lease("q", 3)
	f.clock.Advance(2 * time.Second)
	f.ok("/v1/queue.retry", retryBody(held["r0"], ""))
	f.ok("/v1/queue.retry", retryBody(held["r1"], `,"retry_at":"`+f.in(time.Minute)+`"`))

	ids, refs := f.stored(itemsList, "")

	require.Equal(t, []string{"r2", "r3", "r0"}, refs, "the retried one at the tail, the one for later elsewhere")
	require.True(t, slices.IsSorted(ids))
	later, laterRefs := f.stored(scheduledList, "")
	require.Equal(t, []string{"r1"}, laterRefs)
	require.Equal(t, held["r1"], later[0], "it keeps its id until it is due")
	for i := range ids {
		page, _ := f.stored(itemsList, `,"pivot":"`+ids[i]+`"`)
		require.Equal(t, ids[i:], page, "a page begins with its pivot")
		uid, err := ksuid.Parse(ids[i])
		require.NoError(t, err)
		page, _ = f.stored(itemsList, `,"limit":1,"pivot":"`+uid.Prev().String()+`"`)
		require.Equal(t, ids[i:i+1], page, "a pivot need not exist")
		page, _ = f.stored(itemsList, `,"pivot":"`+uid.Next().String()+`"`)
		require.Equal(t, strings.Join(ids[i+1:], " "), strings.Join(page, " "))
	}
	strange, err := ksuid.NewRandomWithTime(f.clock.Now().Std().Add(-time.Hour))
	require.NoError(t, err)
	page, _ := f.stored(itemsList, `,"pivot":"`+strange.String()+`"`)
	require.Equal(t, ids, page, "an id of nobody's from an hour ago is before all")
}

func TestScheduledItemsAreListedInPages(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	want := make([]string, 0, 50)
	for push := range 5 {
		items := make([]string, 0, 10)
		for i := range 10 {
			ref := fmt.Sprintf("p%d-%d", push, i)
			items, want = append(items, fmt.Sprintf(`{"reference":%q,"enqueue_at":%q}`, ref, f.in(time.Duration(60-push)*time.Minute))), append(want, ref)
		}
		f.ok("/v1/queue.produce", `{"queue_name":"q","request_timeout":"1m","items":[`+strings.Join(items, ",")+`]}`)
		f.clock.Advance(time.Second)
	}
	var got, seen []string
	for pivot := ""; len(got) < 50; {
		ids, refs := f.stored(scheduledList, `,"limit":20,"pivot":"`+pivot+`"`)
		require.NotEmpty(t, ids)
		if pivot != "" {
			require.Equal(t, pivot, ids[0])
			ids, refs = ids[1:], refs[1:]
		}
		got, seen = append(got, refs...), append(seen, ids...)
		pivot = seen[len(seen)-1]
	}
	require.Equal(t, want, got, "in the order in which they were produced")
	require.True(t, slices.IsSorted(seen))
	require.Len(t, slices.Compact(slices.Clone(seen)), 50)

	f.ok("/v1/storage/items.delete", `{"queue_name":"q","ids":["`+seen[0]+`","`+seen[49]+`","`+seen[12]+`"]}`)
	_, refs := f.stored(scheduledList, "")
	require.Len(t, refs, 47)
	require.NotContains(t, refs, "p0-0")
	require.NotContains(t, refs, "p1-2")
	require.NotContains(t, refs, "p4-9")
	f.clock.Advance(time.Hour)
	f.statsShow(`"total":47,`)
	_, refs = f.stored(itemsList, "")
	require.Len(t, refs, 47, "what was deleted never becomes due")
}

func TestItemsAreDeletedInEveryState(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", produceBody(5))
	_, held, _ := f.lease("q", 2)
	f.ok("/v1/queue.retry", retryBody(held["r1"], `,"retry_at":"`+f.in(time.Minute)+`"`))
	all, _ := f.stored(itemsList, "")

	bad := f.post("/v1/storage/items.delete", `{"queue_name":"q","ids":["`+all[1]+`","nonsense"]}`)
	require.Equal(t, 400, bad.status)
	require.Len(t, f.ok(itemsList, `{"queue_name":"q"}`).items(t), 4, "a bad id changes nothing")
	for range 2 {
		f.ok("/v1/storage/items.delete", `{"queue_name":"q","ids":["`+strings.Join([]string{held["r0"], held["r1"], all[1], freshID}, `","`)+`"]}`)
	}

	_, refs := f.stored(itemsList, "")
	require.Equal(t, []string{"r3", "r4"}, refs)
	_, refs = f.stored(scheduledList, "")
	require.Empty(t, refs)
	require.Contains(t, f.ok("/v1/queue.stats", `{"queue_name":"q"}`).body, `"partitions":[{"total":2,"average_age"`)
	require.Equal(t, 400, f.post("/v1/queue.complete", completeBody("q", held["r0"])).status)
	refs, _, _ = f.lease("q", 10)
	require.Equal(t, []string{"r3", "r4"}, refs)
	f.clock.Advance(time.Minute)
	refs, _, _ = f.lease("q", 10)
	require.Equal(t, []string{"r3", "r4"}, refs, "neither comes back by time")
}

func TestImportKeepsWhatItIsGiven(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	c := f.official()
	now := f.clock.Now().Std()
	given := []*pb.StorageItem{
		{IsLeased: true, ExpireDeadline: timestamppb.New(now.Add(9 * time.Hour)), LeaseDeadline: timestamppb.New(now.Add(time.Hour)), Attempts: 5, Reference: "held", Encoding: "e", Kind: "k", Payload: []byte("\x00x")},
		{ExpireDeadline: timestamppb.New(now.Add(8*time.Hour + 1234*time.Nanosecond)), Attempts: 9, Reference: "free"},
		{SourceId: "there", Reference: "moved"},
	}
	var res pb.StorageItemsImportResponse
	require.NoError(t, c.StorageItemsImport(t.Context(), &pb.StorageItemsImportRequest{QueueName: "q", Items: given}, &res))
	var list pb.StorageItemsListResponse
	require.NoError(t, c.StorageItemsList(t.Context(), "q", 0, &list, &client.ListOptions{}))

	require.Len(t, res.Items, 3)
	require.Len(t, list.Items, 3)
	for i, got := range res.Items {
		require.Equal(t, given[i].Attempts, got.Attempts)
		require.Equal(t, given[i].IsLeased, got.IsLeased)
		require.Equal(t, given[i].Payload, got.Payload)
		require.Equal(t, got.String(), list.Items[i].String(), "the list says the same")
		require.Equal(t, now, got.CreatedAt.AsTime())
	}
	require.Equal(t, now.Add(8*time.Hour+time.Microsecond), res.Items[1].ExpireDeadline.AsTime())
	require.Equal(t, now.Add(time.Hour), res.Items[2].ExpireDeadline.AsTime(), "by the queue's rule where none is given")

	again := f.ok("/v1/storage/items.import", `{"queue_name":"q","items":[{"source_id":"there"},{"source_id":"new"},{"source_id":"new"}]}`).items(t)
	require.NotContains(t, again[0], "id", "passed over")
	require.Contains(t, again[1], "id")
	require.NotContains(t, again[2], "id", "one of two in a request")
	refs, ids, items := f.lease("q", 10)
	require.Equal(t, []string{"free", "moved", ""}, refs)
	require.InDelta(t, 10, items[0]["attempts"], 0)
	f.ok("/v1/queue.complete", completeBody("q", ids["moved"], res.Items[0].Id))
	f.ok("/v1/storage/items.import", `{"queue_name":"q","items":[{"source_id":"there","reference":"back"}]}`)
	refs, _, _ = f.lease("q", 10)
	require.Equal(t, []string{"back"}, refs, "a completed item frees its source id")
}

func TestTenThousandItemsInOneImport(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	items := strings.TrimSuffix(strings.Repeat(`{"payload":"eA=="},`, 10_000), ",")
	var res struct{ Items []struct{ ID string } }
	require.NoError(t, json.Unmarshal([]byte(f.ok("/v1/storage/items.import", `{"queue_name":"q","items":[`+items+`]}`).body), &res))
	require.Len(t, res.Items, 10_000)
	ids, _ := f.stored(itemsList, `,"limit":20000`)
	require.Len(t, ids, 10_000)
	require.Equal(t, res.Items[9_999].ID, ids[9_999])
	page, _ := f.stored(itemsList, `,"limit":10,"pivot":"`+ids[5000]+`"`)
	require.Equal(t, ids[5000:5010], page)
	f.ok("/v1/storage/items.delete", `{"queue_name":"q","ids":["`+strings.Join(ids[:1000], `","`)+`"]}`)
	_, _, leased := f.lease("q", 1000)
	require.Equal(t, ids[1000], leased[0]["id"])
	require.Len(t, leased, 1000)
}

func TestClearEmptiesWhatItNames(t *testing.T) {
	for name, tt := range map[string]struct {
		flags         string
		items, queued []string
		later         int
	}{
		"the queue":              {`"queue":true`, []string{"r0", "r1"}, nil, 2},
		"what is scheduled":      {`"scheduled":true`, []string{"r0", "r1", "r3", "r4"}, []string{"r3", "r4"}, 0},
		"both":                   {`"queue":true,"scheduled":true`, []string{"r0", "r1"}, nil, 0},
		"everything":             {`"queue":true,"destructive":true`, nil, nil, 0},
		"not by destroying only": {`"scheduled":true,"destructive":true`, []string{"r0", "r1", "r3", "r4"}, []string{"r3", "r4"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, querator.Options{})
			f.create("q")
			f.ok("/v1/queue.produce", produceBody(5))
			_, held, _ := f.lease("q", 3)
			f.ok("/v1/queue.retry", retryBody(held["r2"], `,"retry_at":"`+f.in(time.Hour/2)+`"`))
			f.ok("/v1/queue.produce", fmt.Sprintf(`{"queue_name":"q","request_timeout":"1m","items":[{"enqueue_at":%q}]}`, f.in(time.Hour)))

			f.ok("/v1/queue.clear", `{"queue_name":"q",`+tt.flags+`}`)

			_, refs := f.stored(itemsList, "")
			require.ElementsMatch(t, tt.items, refs)
			_, later := f.stored(scheduledList, "")
			require.Len(t, later, tt.later)
			if len(tt.queued) > 0 {
				refs, _, _ = f.lease("q", 10)
				require.Equal(t, tt.queued, refs)
			} else {
				f.empty()
			}
			if tt.items != nil {
				f.ok("/v1/queue.complete", completeBody("q", held["r0"]))
			}
		})
	}
}

// The field numbers of a stored item: of the id, the flag, the lease and the expire deadline, the
// creation, the attempts, the reference, the encoding, the kind and the payload.
var storedNumbers = map[querator.Generation][]protowire.Number{
	querator.R1: {1, 2, 3, 4, 5, 7, 9, 10, 11, 12},
	querator.R2: {1, 2, 3, 4, 5, 7, 9, 10, 11, 12},
	querator.L1: {1, 3, 4, 5, 7, 10, 12, 13, 14, 15},
	querator.L2: {1, 3, 4, 5, 7, 10, 12, 13, 14, 15},
}

// numbersOf returns the field numbers of a message, and its last length-delimited field.
func numbersOf(t *testing.T, b []byte) (numbers []protowire.Number, last []byte) {
	t.Helper()
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		require.Positive(t, n)
		if typ == protowire.BytesType {
			last, _ = protowire.ConsumeBytes(b[n:])
		}
		m := protowire.ConsumeFieldValue(num, typ, b[n:])
		require.Positive(t, m)
		numbers, b = append(numbers, num), b[n+m:]
	}
	return numbers, last
}

func TestStoredItemsAndStatsAreNumberedByGeneration(t *testing.T) {
	for _, g := range generations {
		t.Run(string(g), func(t *testing.T) {
			f := newFixture(t, querator.Options{Generation: g})
			f.ok("/v1/queues.create", speak(g, `{"queue_name":"q","{lease}_timeout":"1m","{expire}_timeout":"1h","requested_partitions":1}`))
			f.ok("/v1/queue.produce", `{"queue_name":"q","request_timeout":"1m","items":[{"utf8":"x","reference":"r","kind":"k","encoding":"e"}]}`)
			f.ok(speak(g, "/v1/queue.{lease}"), leaseBody("q", "c", 1, "1m"))

			list := f.do("POST", itemsList, "\n\x01q", "Content-Type", "application/protobuf")
			require.Equal(t, 200, list.status)
			outer, item := numbersOf(t, []byte(list.body))
			require.Equal(t, []protowire.Number{1}, outer)
			got, _ := numbersOf(t, item)
			require.Equal(t, storedNumbers[g], got)

			// The item as it came, under the number that an import has it.
			body := append([]byte("\n\x01q\x1a"), protowire.AppendVarint(nil, uint64(len(item)))...)
			imported := f.do("POST", "/v1/storage/items.import", string(append(body, item...)), "Content-Type", "application/protobuf")
			require.Equal(t, 200, imported.status, imported.body)
			outer, item = numbersOf(t, []byte(imported.body))
			require.Equal(t, []protowire.Number{2}, outer)
			got, payload := numbersOf(t, item)
			require.Equal(t, storedNumbers[g], got)
			require.Equal(t, "x", string(payload))

			stats := f.do("POST", "/v1/queue.stats", "\n\x01q", "Content-Type", "application/protobuf")
			outer, inner := numbersOf(t, []byte(stats.body))
			if g == querator.R1 {
				require.Equal(t, []protowire.Number{2}, outer, "the name was never filled")
				got, _ = numbersOf(t, inner)
				require.Equal(t, []protowire.Number{2, 3, 4, 5}, got)
				return
			}
			require.Equal(t, []protowire.Number{1, 2}, outer)
			_, partition := numbersOf(t, inner)
			got, _ = numbersOf(t, partition)
			require.Equal(t, []protowire.Number{2, 3, 5, 6}, got)
		})
	}
}
