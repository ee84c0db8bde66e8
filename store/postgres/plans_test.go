package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/testenv"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
	"github.com/leasehold/leasehold/store/postgres"
)

// fullVariable makes TestPlans fill its tables with millions of messages.
const fullVariable = "LEASEHOLD_TEST_PLANS_FULL"

// statements are what a store said, each once, in order.
type statements struct {
	mu   sync.Mutex
	list []string
}

func (s *statements) add(sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if verb, _, _ := strings.Cut(sql, " "); slices.Contains([]string{"SELECT", "WITH", "INSERT", "UPDATE", "DELETE"}, verb) && !strings.Contains(sql, "goose") && !strings.Contains(sql, "pg_tables") && !slices.Contains(s.list, sql) {
		s.list = append(s.list, sql)
	}
}

// TraceQueryStart implements pgx.QueryTracer.
func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	s.add(d.SQL)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (*statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (s *statements) TraceBatchQuery(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	s.add(d.SQL)
}

// TraceBatchEnd implements pgx.BatchTracer.
func (*statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TestPlans records all statements of the store and has the server explain each as it is prepared: with few and many messages and
// partitions, with statistics of those and with statistics from when the tables were empty, it looks up what it wants by an index.
func TestPlans(t *testing.T) {
	many, wide := 100_000, 2_000
	if os.Getenv(fullVariable) != "" {
		many, wide = 5_000_000, 100_000
	}
	for _, size := range []struct{ messages, partitions int }{{10, 1}, {many, 1}, {max(10, wide), wide}, {many, wide}} {
		t.Run(fmt.Sprintf("%d messages, %d partitions", size.messages, size.partitions), func(t *testing.T) {
			p := newPlans(t)
			for _, table := range []string{"segments", "batches", "frontiers", "partition_logs", "partitions", "commits", "schedule", "sources", "records", "dead_letters"} {
				p.exec("ALTER TABLE " + table + " SET (autovacuum_enabled = off)")
			}
			p.exec("ANALYZE")
			p.fill(size.messages, size.partitions)
			p.check("statistics of empty tables")
			p.exec("ANALYZE")
			p.check("fresh statistics")
			p.exec("DELETE FROM segments")
			p.exec("DELETE FROM batches")
			p.check("statistics of full tables")
		})
	}
}

// planned is a schema, what the store says, and a session like the store's.
type planned struct {
	*testing.T
	conn  *pgx.Conn
	said  *statements
	p     core.PartitionKey
	store *postgres.Store
}

func newPlans(t *testing.T) *planned {
	t.Helper()
	p := &planned{T: t, said: &statements{}}
	schema := "plans_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	var err error
	p.store, err = postgres.Open(t.Context(), testenv.Postgres(t), postgres.Options{Schema: schema, MaxConns: 2}.Trace(p.said))
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.store.Close() })
	cfg, err := pgx.ParseConfig(testenv.Postgres(t))
	require.NoError(t, err)
	for name, value := range postgres.Plans {
		cfg.RuntimeParams[name] = value
	}
	cfg.RuntimeParams["search_path"] = schema
	p.conn, err = pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := p.conn.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE")
		assert.NoError(t, err)
		_ = p.conn.Close(context.Background())
	})
	p.talk()
	return p
}

func (p *planned) exec(sql string, args ...any) {
	p.Helper()
	_, err := p.conn.Exec(p.Context(), sql, args...)
	require.NoError(p, err)
}

// fill adds messages, one to a segment, with all that belongs to partitions.
func (p *planned) fill(messages, partitions int) {
	p.Helper()
	p.exec(`INSERT INTO partitions (key, id, queue, name, ordinal, created_at)
		SELECT 1000 + n, gen_random_uuid(), q.id, (1000 + n)::text::bytea, 1000 + n, 0 FROM generate_series(1, $1) n, (SELECT id FROM queues LIMIT 1) q`, partitions)
	p.exec("INSERT INTO partition_logs (partition, head) SELECT 1000 + n, $2 / $1 FROM generate_series(1, $1) n", partitions, messages)
	p.exec("INSERT INTO frontiers (partition, grp, moved) SELECT 1000 + n, 'g', true FROM generate_series(1, $1) n", partitions)
	p.exec(`INSERT INTO segments SELECT 1000 + n % $1, 1 + n / $1, 1, n, CASE WHEN n % 10 = 0 THEN n ELSE 0 END, 0, 0, 0, s.header, s.body
		FROM generate_series(0, $2 - 1) n, (SELECT header, body FROM segments LIMIT 1) s`, partitions, messages)
	p.exec(`INSERT INTO batches SELECT 1000 + n % $1, 'g', 10 + n, n, n, '', n % 2, 1, 0, 0, false, gen_random_uuid(), false, 1, n, 1, 1, 1, 1, 1, 1, n
		FROM generate_series(1, greatest($1, $2 / 100)) n`, partitions, messages)
	p.exec("INSERT INTO commits (id, xid, gateway) SELECT gen_random_uuid(), (n + 3)::text::xid8, gen_random_uuid() FROM generate_series(1, $1 / 10) n", messages)
	p.exec(`INSERT INTO schedule SELECT 1000 + n, n, 1000 + n % $1, 1, 1, 1, 1, 0, '', '', '' FROM generate_series(1, $2 / 10) n`, partitions, messages)
	p.exec("INSERT INTO sources SELECT 1000 + n % $1, n::text::bytea, n FROM generate_series(1, $2 / 10) n", partitions, messages)
	p.exec("INSERT INTO records SELECT 'k', n::text::bytea, '', 0 FROM generate_series(1, $1 / 10) n", messages)
}

var placeholder = regexp.MustCompile(`\$(\d+)`)

// check has every statement explained.
func (p *planned) check(what string) {
	p.Helper()
	require.Greater(p, len(p.said.list), 40)
	for i, sql := range p.said.list {
		params := map[string]bool{}
		for _, m := range placeholder.FindAllStringSubmatch(sql, -1) {
			params[m[1]] = true
		}
		name := fmt.Sprintf("s%d", i)
		p.exec("PREPARE " + name + " AS " + sql)
		execute := "EXECUTE " + name
		if len(params) > 0 {
			execute += "(NULL" + strings.Repeat(", NULL", len(params)-1) + ")"
		}
		var out []byte
		require.NoError(p, p.conn.QueryRow(p.Context(), "EXPLAIN (FORMAT JSON, COSTS OFF) "+execute, pgx.QueryExecModeSimpleProtocol).Scan(&out), sql)
		p.exec("DEALLOCATE " + name)
		var plans []struct{ Plan planNode }
		require.NoError(p, json.Unmarshal(out, &plans))
		if bad := plans[0].Plan.bad(""); bad != "" {
			p.Errorf("%s: %s in the plan of\n%s\n%s", what, bad, sql, out)
		}
	}
}

// planNode is a part of a plan.
type planNode struct {
	NodeType  string `json:"Node Type"`
	Relation  string `json:"Relation Name"`
	IndexCond string `json:"Index Cond"`
	Plans     []planNode
}

// bad returns what is wrong with a plan: a table, but for those of one row, is read without a condition on an index.
func (n *planNode) bad(above string) string {
	looked := strings.Contains(n.NodeType, "Index") && (n.IndexCond != "" || above == "Limit") ||
		slices.Contains([]string{"ModifyTable", "Bitmap Heap Scan", "LockRows", "Tid Scan"}, n.NodeType)
	if n.Relation != "" && !looked && !slices.Contains([]string{"catalog", "pruned", "queues"}, n.Relation) {
		return n.NodeType + " on " + n.Relation
	}
	for i := range n.Plans {
		if bad := n.Plans[i].bad(n.NodeType); bad != "" {
			return bad
		}
	}
	return ""
}

// talk makes the store say all that it says on hot paths.
func (p *planned) talk() {
	p.Helper()
	ctx, s, now := p.Context(), p.store, core.TimeOf(coretest.Start)
	ok := func(err error) {
		p.Helper()
		require.NoError(p, err)
	}
	q, err := s.PutQueue(ctx, core.PutQueueParams{Queue: coretest.Queue(1, "q", now), Partitions: []core.Partition{coretest.Partition(2, uuid.Nil, "0", now)}, Now: now})
	ok(err)
	made, err := s.CreatePartitions(ctx, now, []core.Partition{coretest.Partition(3, q.ID, "1", now)})
	ok(err)
	p.p = made[0].Key
	followed, err := s.Follow(ctx, "")
	ok(err)
	segments := make([]core.NewSegment, 0, 200)
	for i := range 200 {
		n := coretest.Segment(p.p, coretest.Message(10+i, now, coretest.Source(strconv.Itoa(i)), coretest.Expires(now+1)))
		n.Know = int64(0)
		segments = append(segments, n)
	}
	_, err = s.Append(ctx, core.AppendParams{Commit: uuid.New(), Now: now, Segments: segments, CheckCatalog: true, Catalog: followed.Catalog})
	ok(err)
	_, err = s.Append(ctx, core.AppendParams{
		Commit: uuid.New(), Now: now, Segments: segments[:1],
		Moved: func(core.PartitionKey, core.LogState, []core.SegmentHeader, []int) ([]core.NewSegment, error) {
			return segments[:1], nil
		},
	})
	ok(err)
	p.talkOfRows(s, q.ID, now)
	_, err = s.Follow(ctx, followed.Next)
	ok(err)
	_, err = s.Headers(ctx, core.HeadersParams{Partition: p.p, From: 1, To: 100, Limit: 10})
	ok(err)
	_, err = s.Read(ctx, core.ReadParams{Partition: p.p, Offsets: core.Runs{{First: 1, Last: 5}}})
	ok(err)
	_, err = s.Locate(ctx, p.p, now)
	ok(err)
	_, err = s.Source(ctx, p.p, "1")
	ok(err)
	_, err = s.Leased(ctx, uuid.New())
	ok(err)
	_, err = s.Outcome(ctx, uuid.New())
	ok(err)
	_, _, _, err = s.NextDue(ctx)
	ok(err)
	_, err = s.Expired(ctx, now+5, 10)
	ok(err)
	refs, err := s.ExpiredSegments(ctx, now+5, 1)
	ok(err)
	_, err = s.Segments(ctx, p.p, 1, 10)
	ok(err)
	ok(s.DeleteSegments(ctx, now, refs, nil))
	idle, err := s.CreatePartitions(ctx, now, []core.Partition{coretest.Partition(4, q.ID, "idle", now)})
	ok(err)
	gone, err := s.RemoveIdle(ctx, core.RemoveIdleParams{Queue: q.ID, Partitions: []core.PartitionKey{idle[0].Key}, Since: now + 1})
	ok(err)
	require.Len(p, gone, 1)
	_, err = s.Record(ctx, "k", "n")
	ok(err)
	ok(s.PutRecord(ctx, "k", "n", nil, []byte("v")))
	_, err = s.ListRecords(ctx, core.ListRecordsParams{Kind: "k", Prefix: "a", Limit: 10})
	ok(err)
	_, _, err = s.Batches(ctx, core.RowKey{Partition: p.p, Group: "g"})
	ok(err)
}

func (p *planned) talkOfRows(s *postgres.Store, queue uuid.UUID, now core.Time) {
	p.Helper()
	row := core.RowKey{Partition: p.p, Group: "g"}
	update := func(requests []core.RowRequest, change func(core.Tx) (*core.ChangeSet, error)) {
		p.Helper()
		_, err := s.Update(p.Context(), core.UpdateParams{Commit: uuid.New(), Now: now, Rows: requests}, change)
		require.NoError(p, err)
	}
	batches := make([]core.Batch, 0, 100)
	for i := range int64(100) {
		batches = append(batches, core.Batch{ID: i + 1, First: i + 1, Last: i + 1, Pending: core.Runs{{First: i + 1, Last: i + 1}}, Exclusive: i == 0})
	}
	update([]core.RowRequest{{Key: row, Must: true}, {Key: core.RowKey{Partition: p.p, Group: "h"}}}, func(core.Tx) (*core.ChangeSet, error) {
		return &core.ChangeSet{
			Rows: []core.RowChange{{Key: row, Move: true, Frontier: core.Frontier{Offset: 200}, Put: batches}}, Records: []core.Record{{Kind: "k", Name: "x", Value: []byte("v")}},
			Register: []core.Registration{{Queue: queue, Group: "g"}}, Schedule: []core.ScheduledSegment{{Due: now, Segment: coretest.Segments(p.p, 900, 1, now)}},
			FreeSources: []core.SourceKey{{Partition: p.p, SourceID: "1"}},
		}, nil
	})
	due, err := s.Due(p.Context(), now, 10)
	require.NoError(p, err)
	update([]core.RowRequest{{Key: row, Must: true, Offsets: []int64{5}, Due: 3, Lease: uuid.New()}}, func(tx core.Tx) (*core.ChangeSet, error) {
		seqs, err := tx.Scheduled([]int64{due[0].Seq})
		if err != nil {
			return nil, err
		}
		if _, _, err = tx.DeadLetter(uuid.New()); err != nil {
			return nil, err
		}
		return &core.ChangeSet{
			Rows: []core.RowChange{{Key: row, Delete: []int64{1, 2}}}, Unschedule: seqs, Segments: []core.NewSegment{coretest.Segments(p.p, 901, 1, now)},
			Unregister: []core.RegistrationKey{{Queue: queue, Group: "none"}}, DropDeadLetters: []uuid.UUID{uuid.New()}, Records: []core.Record{{Kind: "k", Name: "x"}},
		}, nil
	})
	update([]core.RowRequest{{Key: row, Must: true}}, func(core.Tx) (*core.ChangeSet, error) {
		return &core.ChangeSet{Rows: []core.RowChange{{Key: row, DeleteAll: true}}}, nil
	})
	// Once more with what is remembered by now.
	few := core.RowChange{Key: row, Move: true, Frontier: core.Frontier{Offset: 200, NextBatch: 3}, Put: batches[:2]}
	for range 2 {
		update([]core.RowRequest{{Key: row, Must: true}}, func(core.Tx) (*core.ChangeSet, error) {
			return &core.ChangeSet{Rows: []core.RowChange{few}}, nil
		})
		few.Delete, few.Put = []int64{1, 2}, nil
	}
}
