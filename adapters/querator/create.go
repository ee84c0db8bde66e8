package querator

import (
	"bytes"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
	reservepb "github.com/leasehold/leasehold/adapters/querator/pb/reserve"
	"github.com/leasehold/leasehold/core"
)

// createRequest is queues.create in any generation.
type createRequest struct {
	name, deadQueue, reference, lease, expire, namespace string
	maxAttempts, partitions                              int32
	// made is the family of names in the request, as far as they tell.
	made Generation
}

// createQueue is queues.create.
func createQueue(c *call) (reply, error) {
	req, err := c.decodeCreate()
	if err != nil {
		return nil, err
	}
	lease, expire, err := c.checkNameAndTimeouts(req)
	if err != nil {
		return nil, err
	}
	if err := checkNamespace(req.namespace); err != nil {
		return nil, err
	}
	if _, err := c.engine.Queue(c.ctx, req.name); err == nil {
		return nil, queueExists(req.name)
	} else if core.CodeOf(err) != core.CodeNoQueue {
		return nil, c.failed(operation{queue: req.name}, err)
	}
	dead, err := c.checkDeadQueue(req)
	if err != nil {
		return nil, err
	}
	if err := c.checkRecord(req, lease, expire); err != nil {
		return nil, err
	}
	q := core.Queue{Name: req.name, Origin: core.ProtocolQuerator}
	q.Options.MaxDeliveries = req.maxAttempts
	q.Options.Querator = &core.Querator{
		LeaseTimeout: lease, ExpireTimeout: expire, Reference: req.reference,
		Partitions: req.partitions, Family: string(req.made),
	}
	if dead != nil {
		if q.Options.DeadQueue, err = c.deadQueueID(dead, q.Options.Querator); err != nil {
			return nil, err
		}
	}
	if _, err := c.engine.CreateQueue(c.ctx, q, int(req.partitions)); err != nil {
		return nil, c.failed(operation{queue: req.name}, err)
	}
	return okReply{}, nil
}

// checkNameAndTimeouts makes the checks that need nothing but the request, in the generation's
// order: only the newest looks at the name first.
func (c *call) checkNameAndTimeouts(req *createRequest) (lease, expire time.Duration, err error) {
	if c.dialect.gen == L2 {
		if err := c.checkName(req.name); err != nil {
			return 0, 0, err
		}
	}
	leaseName, expireName := c.dialect.verb+" timeout", c.dialect.expire+" timeout"
	switch {
	case len(req.lease) > maxTimeoutText:
		return 0, 0, tooLong(leaseName, "15")
	case len(req.expire) > maxTimeoutText:
		return 0, 0, tooLong(expireName, "15")
	}
	if req.expire != "" {
		if expire, err = time.ParseDuration(req.expire); err != nil {
			return 0, 0, badQueueTimeout(expireName, err, " - ", "60m, 2h or 24h")
		}
	}
	if req.lease != "" {
		if lease, err = time.ParseDuration(req.lease); err != nil {
			return 0, 0, badQueueTimeout(leaseName, err, c.dialect.dash, "8m, 15m or 1h")
		}
	}
	if c.dialect.gen != L2 {
		if err := c.checkName(req.name); err != nil {
			return 0, 0, err
		}
	}
	return lease, expire, nil
}

// The bounds of a queue's record, in bytes or as counts.
const (
	maxTimeoutText    = 15
	maxDeadQueueBytes = 500
	maxReferenceBytes = 2000
	maxNamespaceBytes = 256
	maxMaxAttempts    = 65_536
	// maxPartitions is ours: the originals made as many as were asked for, up to two thousand million.
	maxPartitions = 10_000
)

// checkNamespace refuses every namespace but the default one: none can be made yet.
func checkNamespace(name string) error {
	const what = "namespace name"
	switch {
	case name == "" || name == systemNamespace:
		return nil
	case len(name) > maxNamespaceBytes:
		return tooLong(what, "256")
	case strings.Contains(name, "~"):
		return hasCharacter(what, name, "~")
	case strings.Contains(name, ":"):
		return hasCharacter(what, name, ":")
	case strings.ContainsFunc(name, unicode.IsSpace):
		return hasWhitespace(what, name)
	}
	return noNamespace(name)
}

// deadQueue is the dead queue that a request names: one that exists, or, in the reserve family,
// which may name it first, one to make.
type deadQueue struct {
	queue core.Queue
	make  bool
}

// checkDeadQueue makes the checks of the dead queue; nil is none.
func (c *call) checkDeadQueue(req *createRequest) (*deadQueue, error) {
	const what = "dead queue"
	name, reserve := req.deadQueue, c.dialect.reserve()
	switch {
	case name == "":
		return nil, nil
	case !reserve && len(name) > maxDeadQueueBytes:
		return nil, tooLong(what, "500")
	case len(name) > maxNameBytes:
		return nil, tooLong(what, "512")
	case c.dialect.gen != R1 && strings.ContainsFunc(name, unicode.IsSpace):
		return nil, hasWhitespace(what, name)
	case strings.Contains(name, "~"):
		return nil, hasCharacter(what, name, "~")
	case name == req.name:
		return nil, errDeadQueueSelf
	}
	q, err := c.engine.Queue(c.ctx, name)
	switch {
	case core.CodeOf(err) == core.CodeNoQueue && err != nil && reserve:
		return &deadQueue{queue: core.Queue{Name: name}, make: true}, nil
	case core.CodeOf(err) == core.CodeNoQueue && err != nil:
		return nil, noDeadQueue(c.dialect, name)
	case err != nil:
		return nil, c.failed(operation{queue: name}, err)
	case !reserve && q.Options.DeadQueue != uuid.Nil:
		return nil, deadQueueHasDeadQueue(c.dialect, name)
	}
	return &deadQueue{queue: q}, nil
}

// checkRecord makes the checks of everything else.
func (c *call) checkRecord(req *createRequest, lease, expire time.Duration) error {
	leaseName, expireName := c.dialect.verb+" timeout", c.dialect.expire+" timeout"
	switch {
	case len(req.reference) > maxReferenceBytes:
		return tooLong("reference field", "2000")
	case req.maxAttempts > maxMaxAttempts:
		return errMaxAttemptsLarge
	case req.maxAttempts < 0:
		return errMaxAttemptsNegative
	case req.partitions < 1:
		return errNoPartitions
	case req.partitions > maxPartitions:
		return errManyPartitions
	case lease == 0:
		return cannotBeEmpty(leaseName)
	case expire == 0:
		return cannotBeEmpty(expireName)
	// The originals let negative timeouts pass, and every item of such a queue was lost.
	case lease < 0:
		return cannotBeNegative(leaseName)
	case expire < 0:
		return cannotBeNegative(expireName)
	case lease > expire:
		return leaseOverExpire(c.dialect, lease, expire)
	}
	return nil
}

// deadQueueID returns the id of the dead queue, making it where the reserve family names one that
// does not exist: the originals accepted the name, and the items would have nowhere to go.
func (c *call) deadQueueID(dead *deadQueue, like *core.Querator) (id uuid.UUID, err error) {
	if !dead.make {
		return dead.queue.ID, nil
	}
	q := core.Queue{Name: dead.queue.Name, Origin: core.ProtocolQuerator}
	q.Options.Querator = &core.Querator{
		LeaseTimeout: like.LeaseTimeout, ExpireTimeout: like.ExpireTimeout, Partitions: 1, Family: like.Family,
	}
	q, err = c.engine.CreateQueue(c.ctx, q, 1)
	if err != nil && core.CodeOf(err) == core.CodeQueueExists {
		q, err = c.engine.Queue(c.ctx, dead.queue.Name)
	}
	if err != nil {
		return id, c.failed(operation{queue: dead.queue.Name}, err)
	}
	return q.ID, nil
}

// decodeCreate reads the body in the listener's generation, or in the one that its names belong
// to.
func (c *call) decodeCreate() (*createRequest, error) {
	if !c.auto() {
		req, err := c.decodeCreateAs(c.dialect.gen)
		if err == nil {
			req.made = c.dialect.gen
		}
		return req, err
	}
	req, err := c.decodeCreateAs(L2)
	if c.in == encodeProtobuf {
		// The families do not differ in protobuf.
		return req, err
	}
	if err == nil {
		if req.lease != "" {
			req.made = L2
		}
		return req, nil
	}
	// The newest names do not fit. The reserve family's are tried where the body has one of them, so
	// that what is wrong with it is said in the client's own words.
	for _, d := range []*dialect{dialectR2, dialectR1} {
		key := d.verb
		if d == dialectR1 {
			key = d.expire
		}
		if !namesTimeout(c.body, key) {
			continue
		}
		c.dialect = d
		if req, err = c.decodeCreateAs(d.gen); err == nil {
			req.made = d.gen
			return req, nil
		}
	}
	return nil, err
}

// namesTimeout reports whether a JSON body has a member such as reserve_timeout or reserveTimeout.
func namesTimeout(body []byte, word string) bool {
	return bytes.Contains(body, []byte(`"`+word+`_timeout"`)) || bytes.Contains(body, []byte(`"`+word+`Timeout"`))
}

// decodeCreateAs reads the body in one generation.
func (c *call) decodeCreateAs(g Generation) (*createRequest, error) {
	var m proto.Message
	req := &createRequest{}
	switch g {
	case R1:
		m = &reservepb.QueueInfoR1{}
	case R2:
		m = &reservepb.QueueInfo{}
	case L1:
		m = &leasepb.QueueInfoL1{}
	default:
		m = &leasepb.QueueInfo{}
	}
	if err := c.decode(m); err != nil {
		return nil, err
	}
	switch m := m.(type) {
	case *reservepb.QueueInfoR1:
		req.take(m)
		req.lease, req.expire = m.ReserveTimeout, m.DeadTimeout
	case *reservepb.QueueInfo:
		req.take(m)
		req.lease, req.expire = m.ReserveTimeout, m.ExpireTimeout
	case *leasepb.QueueInfoL1:
		req.take(m)
		req.lease, req.expire = m.LeaseTimeout, m.ExpireTimeout
	case *leasepb.QueueInfo:
		req.take(m)
		req.lease, req.expire, req.namespace = m.LeaseTimeout, m.ExpireTimeout, m.Namespace
	}
	return req, nil
}

// queueInfoMessage is what all generations call alike.
type queueInfoMessage interface {
	GetQueueName() string
	GetDeadQueue() string
	GetReference() string
	GetMaxAttempts() int32
	GetRequestedPartitions() int32
}

func (r *createRequest) take(m queueInfoMessage) {
	r.name, r.deadQueue, r.reference = m.GetQueueName(), m.GetDeadQueue(), m.GetReference()
	r.maxAttempts, r.partitions = m.GetMaxAttempts(), m.GetRequestedPartitions()
}
