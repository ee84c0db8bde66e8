package core

import (
	"context"
	"slices"
)

// forgottenAtOnce is how many records a commit of ForgetRecords deletes.
const forgottenAtOnce = 500

// ForgetRecords deletes all traces, and all queries of stream processors with their state. They outlive their queues, so it is for tests that
// share a server and want to find it as it was.
func (e *Engine) ForgetRecords(ctx context.Context) error {
	for _, kind := range []string{recordTrace, recordTraceMessage, recordTraceName, recordStreamQuery, recordStreamName, recordStreamState} {
		for {
			list, err := e.store.ListRecords(ctx, ListRecordsParams{Kind: kind, Limit: forgottenAtOnce})
			if err == nil {
				err = e.deleteRecords(ctx, slices.Clone(list))
			}
			if err != nil {
				return WrapError(CodeInternal, "forget records", err)
			}
			if len(list) < forgottenAtOnce {
				break
			}
		}
	}
	return nil
}
