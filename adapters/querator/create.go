package querator

import (
	"bytes"
	"time"

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
	if err := c.checkNamespace(req.namespace); err != nil {
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
	if req.namespace != systemNamespace {
		q.Options.Querator.Namespace = req.namespace
	}
	dead.set(&q.Options)
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

// checkNamespace checks the namespace that a queue is to be made in: its name, whether the key may
// make queues there, and that it exists.
func (c *call) checkNamespace(name string) error {
	if name == "" {
		return c.inScope(systemNamespace)
	}
	if err := checkNamespaceName(name); err != nil {
		return err
	}
	if err := c.inScope(name); err != nil {
		return err
	}
	if _, _, err := c.findNamespace(c.ctx, name); err != nil {
		return c.failed(operation{}, err)
	}
	return nil
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
			req.made, c.dialect = L2, dialectL2
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
