package querator

import (
	"time"

	"google.golang.org/protobuf/proto"

	basepb "github.com/leasehold/leasehold/adapters/querator/pb/base"
	leasepb "github.com/leasehold/leasehold/adapters/querator/pb/lease"
	reservepb "github.com/leasehold/leasehold/adapters/querator/pb/reserve"
	"github.com/leasehold/leasehold/core"
)

// queueStats is queue.stats.
func queueStats(c *call) (reply, error) {
	var m basepb.StatsRequest
	if err := c.decode(&m); err != nil {
		return nil, err
	}
	q, err := c.lookup(m.QueueName)
	if err != nil {
		return nil, err
	}
	c.adopt(&q)
	stats, err := c.engine.QueueStats(c.ctx, m.QueueName, core.QueueModeGroup)
	if err != nil {
		return nil, c.failed(operation{queue: m.QueueName}, err)
	}
	return &statsReply{dialect: c.dialect, queue: m.QueueName, stats: &stats, now: c.engine.Now()}, nil
}

// statsReply answers queue.stats.
type statsReply struct {
	dialect *dialect
	queue   string
	stats   *core.QueueStats
	now     core.Time
}

// partitionFigures are one partition's figures. What is scheduled, by its producer or by a retry for
// later, is not in the total.
type partitionFigures struct {
	ordinal, total, leased, scheduled int32
	age, leasedAge                    string
}

func (r *statsReply) figures(s *core.Stats) partitionFigures {
	later := s.Scheduled.Plus(s.Later)
	here := s.Pending.Minus(later)
	f := partitionFigures{
		ordinal:   s.Partition.Ordinal,
		total:     clampInt32(here.Messages),
		leased:    clampInt32(s.Leased.Messages),
		scheduled: clampInt32(later.Messages),
		age:       "0s", leasedAge: "0s",
	}
	if here.Messages > 0 {
		age := time.Duration(r.now.Milli()-here.Created/here.Messages) * time.Millisecond
		f.age = max(age, 0).String()
	}
	if f.leased > 0 {
		// By the name it is an age; every build showed the time that is left.
		f.leasedAge = max(s.MeanLeaseLeft, 0).String()
	}
	return f
}

func (r *statsReply) appendJSON(dst []byte) []byte {
	if r.dialect.gen == R1 {
		return r.appendR1(dst)
	}
	o := openObject(dst)
	o.str("queue_name", r.queue)
	o.key("logicalQueues")
	l := openObject(append(o.dst, '['))
	l.num("produce_waiting", int64(r.stats.PushesWaiting))
	l.num(r.dialect.verb+"_waiting", int64(r.stats.ClaimsWaiting))
	l.num("complete_waiting", int64(r.stats.SettlesWaiting))
	l.num("in_flight", int64(r.stats.InFlight))
	l.key("partitions")
	l.dst = append(l.dst, '[')
	for i := range r.stats.Partitions {
		if i > 0 {
			l.dst = append(l.dst, ',')
		}
		l.dst = r.appendPartition(l.dst, r.figures(&r.stats.Partitions[i]))
	}
	l.dst = append(l.dst, ']')
	o.dst = append(l.close(), ']')
	return o.close()
}

func (r *statsReply) appendPartition(dst []byte, f partitionFigures) []byte {
	o := openObject(dst)
	o.num("partition", int64(f.ordinal))
	o.num("total", int64(f.total))
	o.num("total_"+r.dialect.past, int64(f.leased))
	o.str("average_age", f.age)
	o.str("average_"+r.dialect.past+"_age", f.leasedAge)
	if r.dialect.gen == L2 {
		o.num("scheduled", int64(f.scheduled))
	}
	return o.close()
}

// appendR1 writes the flat form of 2024-09, which has the loop's figures in every partition.
func (r *statsReply) appendR1(dst []byte) []byte {
	dst = append(dst, `{"partitions":[`...)
	for i := range r.stats.Partitions {
		if i > 0 {
			dst = append(dst, ',')
		}
		f := r.figures(&r.stats.Partitions[i])
		o := openObject(dst)
		o.num("partition", int64(f.ordinal))
		o.num("total", int64(f.total))
		o.num("total_reserved", int64(f.leased))
		o.str("average_age", f.age)
		o.str("average_reserved_age", f.leasedAge)
		o.num("produce_waiting", int64(r.stats.PushesWaiting))
		o.num("complete_waiting", int64(r.stats.SettlesWaiting))
		// What waits for items counted as blocked there, and as waiting only until it was tried.
		o.num("reserve_blocked", int64(r.stats.ClaimsWaiting))
		o.num("in_flight", int64(r.stats.InFlight))
		dst = o.close()
	}
	return append(dst, "]}"...)
}

func (r *statsReply) message() proto.Message {
	if r.dialect.gen == R1 {
		return r.messageR1()
	}
	l := &leasepb.LogicalQueue{
		ProduceWaiting: clampInt32(int64(r.stats.PushesWaiting)), LeaseWaiting: clampInt32(int64(r.stats.ClaimsWaiting)),
		CompleteWaiting: clampInt32(int64(r.stats.SettlesWaiting)), InFlight: clampInt32(int64(r.stats.InFlight)),
	}
	for i := range r.stats.Partitions {
		f := r.figures(&r.stats.Partitions[i])
		p := &leasepb.PartitionStats{
			Partition: f.ordinal, Total: f.total, TotalLeased: f.leased, AverageAge: f.age, AverageLeasedAge: f.leasedAge,
		}
		if r.dialect.gen == L2 {
			p.Scheduled = f.scheduled
		}
		l.Partitions = append(l.Partitions, p)
	}
	return &leasepb.StatsResponse{QueueName: r.queue, LogicalQueues: []*leasepb.LogicalQueue{l}}
}

func (r *statsReply) messageR1() proto.Message {
	m := &reservepb.StatsResponseR1{}
	for i := range r.stats.Partitions {
		f := r.figures(&r.stats.Partitions[i])
		m.Partitions = append(m.Partitions, &reservepb.PartitionStatsR1{
			Partition: f.ordinal, Total: f.total, TotalReserved: f.leased,
			AverageAge: f.age, AverageReservedAge: f.leasedAge,
			ProduceWaiting: clampInt32(int64(r.stats.PushesWaiting)), ReserveBlocked: clampInt32(int64(r.stats.ClaimsWaiting)),
			CompleteWaiting: clampInt32(int64(r.stats.SettlesWaiting)), InFlight: clampInt32(int64(r.stats.InFlight)),
		})
	}
	return m
}
