package querator_test

import (
	"fmt"
	"testing"
	"time"

	pb "github.com/kapetan-io/querator/proto"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/leasehold/leasehold/adapters/querator"
	"github.com/leasehold/leasehold/core"
)

func (f *fixture) info() string {
	f.t.Helper()
	return f.ok("/v1/queues.info", `{"queue_name":"q"}`).body
}

// updatable makes a queue with everything set.
func updatable(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, querator.Options{Generation: querator.L2})
	f.create("dead")
	f.create("other")
	f.create("q", `,"dead_queue":"dead","reference":"ref","max_attempts":3`)
	return f
}

func TestUpdateSetsWhatIsPresent(t *testing.T) {
	const all = `"dead_queue":"dead","reference":"ref","lease_timeout":"1m0s","expire_timeout":"1h0m0s","max_attempts":3,"requested_partitions":1`
	for name, tt := range map[string]struct{ more, want string }{
		"nothing":                     {``, all},
		"nulls":                       {`,"max_attempts":null,"reference":null,"dead_queue":null,"lease_timeout":null`, all},
		"max attempts":                {`,"max_attempts":5`, `"dead_queue":"dead","reference":"ref","lease_timeout":"1m0s","expire_timeout":"1h0m0s","max_attempts":5`},
		"no limit of attempts":        {`,"max_attempts":0`, `"dead_queue":"dead","reference":"ref","lease_timeout":"1m0s","expire_timeout":"1h0m0s","requested_partitions":1`},
		"no reference":                {`,"reference":""`, `"dead_queue":"dead","lease_timeout":"1m0s","expire_timeout":"1h0m0s","max_attempts":3`},
		"another dead queue":          {`,"dead_queue":"other"`, `"dead_queue":"other","reference":"ref"`},
		"no dead queue":               {`,"deadQueue":""`, `"reference":"ref","lease_timeout":"1m0s","expire_timeout":"1h0m0s","max_attempts":3`},
		"lease timeout":               {`,"leaseTimeout":"90s"`, `"lease_timeout":"1m30s","expire_timeout":"1h0m0s","max_attempts":3`},
		"expire timeout":              {`,"expire_timeout":"2h"`, `"lease_timeout":"1m0s","expire_timeout":"2h0m0s","max_attempts":3`},
		"timeouts of nothing":         {`,"lease_timeout":"","expire_timeout":"0s"`, all},
		"a number that is not obeyed": {`,"requested_partitions":7`, `"max_attempts":3,"requested_partitions":7`},
	} {
		t.Run(name, func(t *testing.T) {
			f := updatable(t)
			made := f.in(0)
			f.clock.Advance(time.Second)
			f.ok("/v1/queues.update", `{"queue_name":"q"`+tt.more+`}`)
			info := f.info()
			require.Contains(t, info, `{"queue_name":"q","created_at":"`+made+`","updated_at":"`+f.in(0)+`",`)
			require.Contains(t, info, tt.want)
			if name == "a number that is not obeyed" {
				require.Equal(t, 400, f.post(itemsList, `{"queue_name":"q","partition":1}`).status)
			}
		})
	}
}

func TestUpdateInProtobufReplacesWhatItCannotTellFromAbsent(t *testing.T) {
	f := updatable(t)
	body, err := proto.Marshal(&pb.QueueInfo{QueueName: "q", MaxAttempts: 9})
	require.NoError(t, err)
	require.Equal(t, 200, f.do("POST", "/v1/queues.update", string(body), "Content-Type", "application/protobuf").status)
	require.Contains(t, f.info(), `"lease_timeout":"1m0s","expire_timeout":"1h0m0s","max_attempts":9,"requested_partitions":1`)
	require.NotContains(t, f.info(), "dead_queue")
	require.NotContains(t, f.info(), "reference")
}

func TestARefusedUpdateChangesNothing(t *testing.T) {
	for _, more := range []string{
		`"max_attempts":-1`, `"lease_timeout":"2h"`, `"expire_timeout":"30s"`, `"lease_timeout":"-1m"`, `"reference":"x","requested_partitions":-1`, `"dead_queue":"nope"`,
		`"dead_queue":"q"`, `"lease_timeout":"foo"`, `"bogus":1`, `"max_attempts":"x"`, `"max_attempts":1,"max_attempts":2`,
	} {
		f := updatable(t)
		before := f.info()
		f.clock.Advance(time.Second)
		a := f.post("/v1/queues.update", `{"queue_name":"q",`+more+`}`)
		require.Contains(t, []int{400, 455}, a.status, more)
		require.Equal(t, before, f.info(), more)
	}
}

func TestUpdatedAttemptsHoldForQueuedItems(t *testing.T) {
	for _, tt := range []struct{ from, to, leases int }{{3, 3, 3}, {3, 1, 1}, {1, 3, 3}, {1, 0, 6}} {
		t.Run(fmt.Sprintf("%d to %d", tt.from, tt.to), func(t *testing.T) {
			f := newFixture(t, querator.Options{})
			f.create("q", fmt.Sprintf(`,"max_attempts":%d`, tt.from))
			f.ok("/v1/queue.produce", produceBody(1))
			f.ok("/v1/queues.update", fmt.Sprintf(`{"queue_name":"q","max_attempts":%d}`, tt.to))
			for n := range tt.leases {
				_, _, items := f.lease("q", 1)
				require.InDelta(t, n+1, items[0]["attempts"], 0)
				f.clock.Advance(time.Minute)
			}
			if tt.to > 0 {
				f.empty()
			}
		})
	}
}

func TestUpdatedTimeoutsHoldForWhatComesLater(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.create("q")
	f.ok("/v1/queue.produce", produceBody(2))
	_, _, held := f.lease("q", 1)
	f.ok("/v1/queues.update", `{"queue_name":"q","lease_timeout":"10m","expire_timeout":"2h"}`)
	f.ok("/v1/queue.produce", `{"queue_name":"q","request_timeout":"1m","items":[{"reference":"new"}]}`)

	_, _, items := f.lease("q", 1)
	require.Equal(t, f.in(time.Minute), held[0]["lease_deadline"])
	require.Equal(t, f.in(10*time.Minute), items[0]["lease_deadline"])
	stored := f.ok(itemsList, `{"queue_name":"q"}`).items(t)
	require.Equal(t, f.in(time.Hour), stored[1]["expire_deadline"])
	require.Equal(t, f.in(2*time.Hour), stored[2]["expire_deadline"])
	f.clock.Advance(time.Minute)
	refs, _, _ := f.lease("q", 10)
	require.Equal(t, []string{"new", "r0"}, refs, "the running lease ended by its own deadline")
}

func TestUpdateOfAQueueThatAnotherProtocolMade(t *testing.T) {
	f := newFixture(t, querator.Options{})
	_, err := f.engine.CreateQueue(t.Context(), core.Queue{Name: "q", Origin: core.ProtocolQueen}, 1)
	require.NoError(t, err)
	f.ok("/v1/queues.update", `{"queue_name":"q","max_attempts":2,"reference":"mine"}`)
	require.Contains(t, f.info(), `"reference":"mine","lease_timeout":"1m0s","max_attempts":2,"requested_partitions":1`)
	f.ok("/v1/queue.produce", produceBody(1))
	f.clock.Advance(1000 * time.Hour)
	refs, _, _ := f.lease("q", 1)
	require.Equal(t, []string{"r0"}, refs, "nothing expires there")
}

func TestAliasesOfThePublishedDocuments(t *testing.T) {
	f := newFixture(t, querator.Options{})
	f.ok("/v1/queue.create", `{"name":"q","reserve_timeout":"1m","dead_timeout":"1h","requested_partitions":1,"reference":"name"}`)
	f.ok("/v1/queue.update", ` {"reference":"\"name\"", "name" : "q","max_attempts":4}`)
	info := f.ok("/v1/queue.info", `{"name":"q"}`).body
	exact(t, `{"name":"q","queue_name":"q","created_at":"`+f.in(0)+`","updated_at":"`+f.in(0)+
		`","reference":"\"name\"","reserve_timeout":"1m0s","dead_timeout":"1h0m0s","max_attempts":4}`, info)
	exact(t, info, f.ok("/v1/queue.inspect", `{"queue_name":"q"}`).body)
	exact(t, `{"items":[`+info+`]}`, f.ok("/v1/queue.list", `{}`).body)
	f.ok("/v1/queue.produce", produceBody(2))
	list := f.ok("/v1/storage/queue.list", `{"queue_name":"q"}`)
	require.Contains(t, list.body, `"reserve_deadline":"0001-01-01T00:00:00Z","dead_deadline":"`)
	id, _ := list.items(t)[0]["id"].(string)
	f.ok("/v1/storage/queue.delete", `{"queue_name":"q","ids":["`+id+`"]}`)
	added := f.ok("/v1/storage/queue.add", `{"queue_name":"q","items":[{"reference":"added","dead_deadline":"`+f.in(2*time.Hour)+`"}]}`)
	require.Contains(t, added.body, `"dead_deadline":"`+f.in(2*time.Hour)+`"`)
	f.ok("/v1/storage.items-import", `{"queue_name":"q","items":[{"reference":"imported"}]}`)
	_, refs := f.stored("/v1/storage.items-list", "")
	require.Equal(t, []string{"r1", "added", "imported"}, refs)
	f.ok("/v1/storage.items-delete", `{"queue_name":"q","ids":["`+freshID+`"]}`)

	require.Equal(t, 455, f.post("/v1/queue.info", `{"name":"q","queue_name":"q"}`).status, "twice")
	require.Equal(t, 455, f.post("/v1/queue.info", `["name"]`).status)
	require.Equal(t, 455, f.post("/v1/queues.info", `{"name":"q"}`).status, "the live path knows its own name only")
	for _, g := range generations {
		fixed := newFixture(t, querator.Options{Generation: g})
		require.Equal(t, 501, fixed.post("/v1/queue.create", `{}`).status, "no server had it")
	}
}
