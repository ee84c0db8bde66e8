package querator

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// fastProduceWire reads queue.produce in protobuf with two allocations for all its texts and
// payloads. Like the fast decoders of JSON it takes on only what clients send; whatever is unusual is
// left to the runtime, so that it decides what is right.
func fastProduceWire(body []byte, fam family) (*produceRequest, bool) {
	w := wireReader{text: string(body), own: append([]byte(nil), body...)}
	req := &produceRequest{}
	ok := w.fields(0, len(body), func(n protowire.Number, from, to int) bool {
		switch n {
		case 1:
			return w.label(&req.queue, from, to)
		case 2:
			return w.label(&req.timeout, from, to)
		case 3:
			if len(req.items) == 0 {
				req.items = make([]produceItem, 0, min(1+(len(body)-to)/max(to-from, 1), DefaultMaxBatch))
			}
			req.items = append(req.items, produceItem{})
			return w.item(&req.items[len(req.items)-1], fam, from, to)
		default:
			return false
		}
	})
	return req, ok
}

// wireReader reads a message out of two copies of it: one for texts and one for bytes.
type wireReader struct {
	text string
	own  []byte
}

// fields calls f with every field between two places, all of which must be length-delimited.
func (w *wireReader) fields(from, to int, f func(n protowire.Number, from, to int) bool) bool {
	for from < to {
		num, typ, n := protowire.ConsumeTag(w.own[from:to])
		if n < 0 || typ != protowire.BytesType {
			return false
		}
		from += n
		size, n := protowire.ConsumeVarint(w.own[from:to])
		if n < 0 || size > uint64(to-from-n) { //nolint:gosec // to is not before from
			return false
		}
		from += n
		end := from + int(size) //nolint:gosec // at most to
		if !f(num, from, end) {
			return false
		}
		from = end
	}
	return true
}

// label takes a text that was not there before.
func (w *wireReader) label(s *string, from, to int) bool {
	ok := *s == "" && utf8.ValidString(w.text[from:to])
	*s = w.text[from:to]
	return ok
}

// item reads one item in a family's numbers.
func (w *wireReader) item(it *produceItem, fam family, from, to int) bool {
	payload := protowire.Number(5)
	if fam == familyReserve {
		payload = 4
	}
	return w.fields(from, to, func(n protowire.Number, from, to int) bool {
		switch {
		case n == 1:
			return w.label(&it.encoding, from, to)
		case n == 2:
			return w.label(&it.kind, from, to)
		case n == 3:
			return w.label(&it.reference, from, to)
		case n == payload:
			ok := it.bytes == nil
			it.bytes = w.own[from:to:to]
			return ok
		case n == payload+1:
			ok := it.utf8 == nil && utf8.Valid(w.own[from:to])
			it.utf8 = w.own[from:to:to]
			return ok
		case n == 4 && it.at == nil:
			it.at = &timestamppb.Timestamp{}
			return proto.Unmarshal(w.own[from:to], it.at) == nil
		}
		return false
	})
}
