package core

import (
	"context"
)

// DeletedGroup says what Engine.DeleteGroup removed.
type DeletedGroup struct {
	// Partitions counts the rows removed.
	Partitions int
	// Registrations counts the registrations removed.
	Registrations int
}

// DeleteGroup removes the frontiers and leases of a group on one queue, and its registration unless keep is set: then the next claim
// begins where the registration says. CodeNoQueue when there is no such queue.
func (e *Engine) DeleteGroup(ctx context.Context, queue, group string, keep bool) (DeletedGroup, error) {
	en, err := e.queue(ctx, "delete group", queue)
	if err != nil {
		return DeletedGroup{}, err
	}
	return e.deleteGroups(ctx, func() []*entry { return []*entry{en} }, group, keep)
}

// DeleteGroupEverywhere is DeleteGroup on every queue.
func (e *Engine) DeleteGroupEverywhere(ctx context.Context, group string, keep bool) (DeletedGroup, error) {
	return e.deleteGroups(ctx, e.cat.all, group, keep)
}

func (e *Engine) deleteGroups(ctx context.Context, entries func() []*entry, group string, keep bool) (out DeletedGroup, err error) {
	if group == "" {
		group = QueueModeGroup // an empty group of the store's Rows would be every group
	}
	if err := e.look(ctx); err != nil {
		return out, err
	}
	ctx = context.WithoutCancel(ctx)
	cerr := e.call(func() {
		for _, en := range entries() {
			if err = e.deleteGroup(ctx, en, group, keep, &out); err != nil {
				return
			}
		}
	})
	if cerr != nil {
		return out, cerr
	}
	return out, WrapError(CodeInternal, "delete group", err)
}

func (e *Engine) deleteGroup(ctx context.Context, en *entry, group string, keep bool, out *DeletedGroup) error {
	rows, err := e.store.Rows(ctx, RowsParams{Queue: en.q().ID, Group: group, Now: e.clock.Now()})
	if err != nil {
		return err
	}
	regs, err := e.store.Registrations(ctx, en.q().ID)
	if err != nil {
		return err
	}
	cs := &ChangeSet{}
	for _, r := range regs {
		if r.Group == group && !keep {
			cs.Unregister = append(cs.Unregister, RegistrationKey{en.q().ID, group})
			out.Registrations++
		}
	}
	params := UpdateParams{Commit: newCommit(), Now: e.clock.Now()}
	for i := range rows {
		params.Rows = append(params.Rows, RowRequest{Key: rows[i].Key, Must: true})
		cs.Rows = append(cs.Rows, RowChange{Key: rows[i].Key, Drop: true})
	}
	if cs.Empty() {
		return nil
	}
	if _, err := e.store.Update(ctx, params, func(Tx) (*ChangeSet, error) { return cs, nil }); err != nil {
		return err
	}
	out.Partitions += len(rows)
	return e.reload(ctx, en)
}

// Registrations returns the groups registered on a queue.
func (e *Engine) Registrations(ctx context.Context, queue string) ([]Registration, error) {
	en, err := e.queue(ctx, "registrations", queue)
	if err != nil {
		return nil, err
	}
	regs, err := e.store.Registrations(ctx, en.q().ID)
	return regs, WrapError(CodeInternal, "registrations", err)
}

// Resubscribe changes where a group begins in partitions that it has not touched, on every queue on which it is registered. It
// returns on how many.
func (e *Engine) Resubscribe(ctx context.Context, group string, start Time) (int, error) {
	n := 0
	if err := e.look(ctx); err != nil {
		return 0, err
	}
	var err error
	ctx = context.WithoutCancel(ctx)
	cerr := e.call(func() {
		for _, en := range e.cat.all() {
			var regs []Registration
			if regs, err = e.store.Registrations(ctx, en.q().ID); err != nil {
				return
			}
			for _, r := range regs {
				if r.Group != group {
					continue
				}
				r.Start = start
				r.setMode("timestamp", r.NewestOnly())
				cs := &ChangeSet{Unregister: []RegistrationKey{{r.Queue, group}}, Register: []Registration{r}}
				params := UpdateParams{Commit: newCommit(), Now: e.clock.Now()}
				if _, err = e.store.Update(ctx, params, func(Tx) (*ChangeSet, error) { return cs, nil }); err != nil {
					return
				}
				if err = e.reload(ctx, en); err != nil {
					return
				}
				n++
			}
		}
	})
	if cerr != nil {
		return n, cerr
	}
	return n, WrapError(CodeInternal, "resubscribe", err)
}
