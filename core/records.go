package core

import "context"

// Record returns the bytes stored under a kind and a name, nil when there are none.
func (e *Engine) Record(ctx context.Context, kind, name string) ([]byte, error) {
	v, err := e.store.Record(ctx, kind, name)
	return v, WrapError(CodeInternal, "read record", err)
}

// PutRecord stores bytes under a kind and a name when what is there equals old (nil: nothing), else CodeConflict. A nil value
// deletes.
func (e *Engine) PutRecord(ctx context.Context, kind, name string, old, value []byte) error {
	return WrapError(CodeInternal, "write record", e.store.PutRecord(ctx, kind, name, old, value))
}

// ListRecords returns records of a kind by name in byte order.
func (e *Engine) ListRecords(ctx context.Context, p ListRecordsParams) ([]Record, error) {
	list, err := e.store.ListRecords(ctx, p)
	return list, WrapError(CodeInternal, "list records", err)
}
