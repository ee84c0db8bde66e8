package querator

import (
	"strings"
	"unicode"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// deadQueue is where the dead items of a queue go. The reserve family could name any queue: one that
// did not exist, and even the queue itself, which is then kept as a name and nothing more.
type deadQueue struct {
	id   uuid.UUID
	name string
}

// set puts the dead queue into the options of a queue that Querator configured.
func (d deadQueue) set(o *core.QueueOptions) { o.DeadQueue, o.Querator.DeadName = d.id, d.name }

// checkDeadQueue makes the checks of the dead queue that a request names and finds it.
func (c *call) checkDeadQueue(req *createRequest) (d deadQueue, err error) {
	const what = "dead queue"
	name, reserve := req.deadQueue, c.dialect.reserve()
	switch {
	case name == "":
		return d, nil
	case !reserve && len(name) > maxDeadQueueBytes:
		return d, tooLong(what, "500")
	case len(name) > maxNameBytes:
		return d, tooLong(what, "512")
	case c.dialect.gen != R1 && strings.ContainsFunc(name, unicode.IsSpace):
		return d, hasWhitespace(what, name)
	case strings.Contains(name, "~"):
		return d, hasCharacter(what, name, "~")
	case name == req.name && reserve:
		return deadQueue{name: name}, nil
	case name == req.name:
		return d, errDeadQueueSelf
	}
	q, err := c.engine.Queue(c.ctx, name)
	switch {
	case core.CodeOf(err) == core.CodeNoQueue && err != nil && reserve:
		return deadQueue{name: name}, nil
	case core.CodeOf(err) == core.CodeNoQueue && err != nil:
		return d, noDeadQueue(c.dialect, name)
	case err != nil:
		return d, c.failed(operation{queue: name}, err)
	}
	if err := c.inScope(namespaceOf(&q)); err != nil {
		return d, err
	}
	if !reserve && q.Options.DeadQueue != uuid.Nil {
		return d, deadQueueHasDeadQueue(c.dialect, name)
	}
	return deadQueue{id: q.ID}, nil
}

// settleDeadQueue makes sure that a dead queue that was only named exists before there is an item
// that could go there. The originals left such items nowhere to go.
func (c *call) settleDeadQueue(q *core.Queue) error {
	s := q.Options.Querator
	if s == nil || s.DeadName == "" || s.DeadName == q.Name {
		return nil
	}
	dead, err := c.engine.Queue(c.ctx, s.DeadName)
	if core.CodeOf(err) == core.CodeNoQueue && err != nil {
		made := core.Queue{Name: s.DeadName, Origin: core.ProtocolQuerator}
		made.Options.Querator = &core.Querator{
			LeaseTimeout: s.LeaseTimeout, ExpireTimeout: s.ExpireTimeout, Partitions: 1, Family: s.Family, Namespace: s.Namespace,
		}
		if dead, err = c.engine.CreateQueue(c.ctx, made, 1); err != nil && core.CodeOf(err) == core.CodeQueueExists {
			dead, err = c.engine.Queue(c.ctx, s.DeadName)
		}
	}
	if err == nil {
		_, err = c.engine.ConfigureQueue(c.ctx, q.Name, func(q *core.Queue) error {
			if now := q.Options.Querator; now != nil && now.DeadName == s.DeadName {
				q.Options.DeadQueue, now.DeadName = dead.ID, ""
			}
			return nil
		})
	}
	if err != nil {
		return c.failed(operation{queue: q.Name}, err)
	}
	return nil
}
