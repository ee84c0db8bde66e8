package bench

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/postgres"
)

// local is an engine in this process on a scratch schema of a PostgreSQL, without HTTP and without an adapter.
type local struct {
	database *database
	store    *postgres.Store
	engine   *core.Engine
	queues   int // made so far, for their names
}

// localConns is how many connections it may use: enough for each client to have one.
const localConns = 40

// openLocal makes the schema.
func openLocal(ctx context.Context, url string) (l *local, err error) {
	schema := scratchSchema()
	l = &local{}
	if l.database, err = openDatabase(ctx, url, schema); err != nil {
		return nil, err
	}
	if l.store, err = postgres.Open(ctx, url, postgres.Options{Schema: schema, MaxConns: localConns}); err != nil {
		return nil, errors.Join(err, l.close(ctx))
	}
	if l.engine, err = core.New(ctx, l.store, core.Options{Clock: l.store.Clock()}); err != nil {
		return nil, errors.Join(err, l.close(ctx))
	}
	return l, nil
}

// scratchSchema is a name for a schema that nobody else uses.
func scratchSchema() string { return "leasehold_bench_" + strconv.FormatInt(time.Now().UnixNano(), 36) }

// close ends the engine and drops the schema.
func (l *local) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	var err error
	if l.engine != nil {
		err = l.engine.Shutdown(ctx)
	}
	if l.store != nil {
		err = errors.Join(err, l.store.Close())
	}
	return errors.Join(err, l.database.close(ctx))
}

// queue makes a queue with so many partitions and as many messages in each, of so many bytes.
func (l *local) queue(ctx context.Context, origin core.Protocol, partitions, messages, payload int) ([]core.Partition, string, error) {
	l.queues++
	name := "bench-" + strconv.Itoa(l.queues)
	q := core.Queue{Name: name, Origin: origin}
	if origin == core.ProtocolQuerator {
		q.Options.Querator = &core.Querator{}
	}
	if _, err := l.engine.CreateQueue(ctx, q, partitions); err != nil {
		return nil, "", err
	}
	list, err := l.engine.Partitions(ctx, name)
	for i := range list {
		for left := messages; left > 0 && err == nil; left -= core.MaxSegmentMessages {
			err = l.push(ctx, name, list[i].Name, min(left, core.MaxSegmentMessages), jsonText(payload))
		}
	}
	return list, name, err
}

// push pushes some messages to one partition.
func (l *local) push(ctx context.Context, queue, partition string, n int, payload []byte) error {
	items := make([]core.PushItem, n)
	for i := range items {
		items[i] = core.PushItem{Queue: queue, Partition: partition, NewMessage: core.NewMessage{Payload: payload}}
	}
	pushed, err := l.engine.Push(ctx, core.PushParams{Protocol: core.ProtocolQueen, Items: items})
	for i := range pushed {
		if pushed[i].Err != nil {
			return pushed[i].Err
		}
	}
	return err
}

// jsonText is a JSON string of that many bytes.
func jsonText(n int) []byte { return []byte(`"` + string(text(n-2)) + `"`) }
