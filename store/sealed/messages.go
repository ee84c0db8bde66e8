package sealed

import (
	"github.com/leasehold/leasehold/core"
)

// flag marks the content type of a sealed payload in its record.
const flag core.ContentType = 0x80

// sealMessage seals a message's payload, unless it is sealed.
func (s *store) sealMessage(m *core.Message) error {
	if m.ContentType&flag != 0 {
		return nil
	}
	payload, err := s.o.Keys.Seal(m.ID[:], m.Payload)
	if err != nil {
		return core.Errorf(core.CodeInvalid, "seal", "the queue is encrypted and this server has no key")
	}
	m.Payload, m.ContentType = payload, m.ContentType|flag
	m.Size = int32(len(payload)) //nolint:gosec // a payload is far below 2 GiB
	return nil
}

// openMessage opens a message's payload, if it is sealed.
func (s *store) openMessage(m *core.Message) error {
	if m.ContentType&flag == 0 {
		return nil
	}
	payload, err := s.o.Keys.Open(m.ID[:], m.Payload)
	if err != nil {
		return core.Errorf(core.CodeInternal, "open", "message %s: %w", m.ID, err)
	}
	m.Payload, m.ContentType = payload, m.ContentType&^flag
	m.Size = int32(len(payload)) //nolint:gosec // a payload is far below 2 GiB
	return nil
}

// openAll opens messages that a store has read. The slice may be the store's own, so what changes is a copy.
func (s *store) openAll(list []core.Message) ([]core.Message, error) {
	copied := false
	for i := range list {
		if list[i].ContentType&flag == 0 {
			continue
		}
		if !copied {
			list = append([]core.Message(nil), list...)
			copied = true
		}
		if err := s.openMessage(&list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// recode returns a segment whose messages went through change.
func recode(seg *core.NewSegment, change func(*core.Message) error) (core.NewSegment, error) {
	var header core.SegmentHeader
	var err error
	if header.Messages, err = core.DecodeHeaders(seg.Header, seg.Count); err != nil {
		return core.NewSegment{}, err
	}
	list, err := core.DecodeMessages(&header, 0, seg.Count-1, seg.Body)
	if err != nil {
		return core.NewSegment{}, err
	}
	out := core.NewSegment{
		Partition: seg.Partition, Know: seg.Know, Group: seg.Group,
		Header: make([]byte, 0, len(seg.Header)+2*seg.Count), Body: make([]byte, 0, len(seg.Body)+(Overhead+1)*seg.Count),
	}
	for i := range list {
		if err := change(&list[i]); err != nil {
			return core.NewSegment{}, err
		}
		out.Add(&list[i])
	}
	return out, nil
}

// sealSegments returns segments of encrypted queues sealed, the others as they are. The slice is copied when any is.
func (s *store) sealSegments(segments []core.NewSegment) ([]core.NewSegment, error) {
	if s.encrypted.Load() == 0 {
		return segments, nil
	}
	copied := false
	for i := range segments {
		if segments[i].Count <= 0 {
			continue
		}
		seal, err := s.seals(segments[i].Partition)
		if err != nil {
			return nil, err
		}
		if !seal {
			continue
		}
		one, err := recode(&segments[i], s.sealMessage)
		if err != nil {
			return nil, err
		}
		if !copied {
			segments = append([]core.NewSegment(nil), segments...)
			copied = true
		}
		segments[i] = one
	}
	return segments, nil
}

// sealChange returns a change set with what belongs to encrypted queues sealed. The engine's own stays as it is: it may look at it again.
func (s *store) sealChange(c *core.ChangeSet) (*core.ChangeSet, error) {
	if c == nil || s.encrypted.Load() == 0 || len(c.Segments)+len(c.Schedule)+len(c.DeadLetters) == 0 {
		return c, nil
	}
	out := *c
	var err error
	if out.Segments, err = s.sealSegments(c.Segments); err != nil {
		return nil, err
	}
	out.Schedule = append([]core.ScheduledSegment(nil), c.Schedule...)
	for i := range out.Schedule {
		one, err := s.sealSegments([]core.NewSegment{out.Schedule[i].Segment})
		if err != nil {
			return nil, err
		}
		out.Schedule[i].Segment = one[0]
	}
	out.DeadLetters = append([]core.DeadLetter(nil), c.DeadLetters...)
	for i := range out.DeadLetters {
		d := &out.DeadLetters[i]
		seal, err := s.seals(d.Partition)
		if err == nil && seal {
			err = s.sealMessage(&d.Message)
		}
		if err != nil {
			return nil, err
		}
	}
	return &out, nil
}

// openScheduled opens delayed segments that a store has read.
func (s *store) openScheduled(list []core.ScheduledSegment) ([]core.ScheduledSegment, error) {
	out := list
	for i := range list {
		if !sealedSegment(&list[i].Segment) {
			continue
		}
		if &out[0] == &list[0] {
			out = append([]core.ScheduledSegment(nil), list...)
		}
		one, err := recode(&list[i].Segment, s.openMessage)
		if err != nil {
			return nil, err
		}
		out[i].Segment = one
	}
	return out, nil
}

// sealedSegment reports whether any message of a segment is sealed. Damage is for others to find.
func sealedSegment(seg *core.NewSegment) bool {
	headers, err := core.DecodeHeaders(seg.Header, seg.Count)
	if err != nil {
		return false
	}
	for i := range headers {
		at, _ := core.BodyRange(headers, i, i)
		if at < int64(len(seg.Body)) && core.ContentType(seg.Body[at])&flag != 0 {
			return true
		}
	}
	return false
}
