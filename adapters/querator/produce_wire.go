package querator

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The two families number the items of queue.produce differently under one path: the reserve
// family has its payload in field 4 and its text in 5, the lease family a time in 4, its payload
// in 5 and its text in 6.

// itemFamily tells by the items of a protobuf queue.produce which family numbered them: one
// client numbers them all alike. undecided is set where they fit either; the family returned then
// is the better guess. A body that is no message is left for the decoder to refuse.
func itemFamily(body []byte) (fam family, undecided bool) {
	var six, timed, payload, maybe bool
	eachField(body, func(n protowire.Number, item []byte) {
		if n != 3 {
			return
		}
		var four []byte
		var hasFour, hasFive bool
		eachField(item, func(n protowire.Number, v []byte) {
			switch n {
			case 4:
				four, hasFour = v, true
			case 5:
				hasFive = true
			case 6:
				six = true
			default:
			}
		})
		switch {
		case !hasFour:
		case !isTimestamp(four):
			payload = true
		case hasFive:
			timed = true
		default:
			maybe = true
		}
	})
	switch {
	case six:
		return familyLease, false
	case payload:
		return familyReserve, false
	case timed:
		return familyLease, false
	case maybe:
		// A payload that happens to read as a time, or a schedule without a payload: the former
		// would be lost, the latter is only early.
		return familyReserve, true
	default:
		// Field 5 alone is the payload in both; only its kind differs.
		return familyLease, true
	}
}

// isTimestamp reports whether b is a google.protobuf.Timestamp and nothing that only resembles
// one: no other field, a fraction below a second, a year from 1 to 9999.
func isTimestamp(b []byte) bool {
	for rest := b; len(rest) > 0; {
		num, typ, n := protowire.ConsumeTag(rest)
		if n < 0 || typ != protowire.VarintType || num > 2 {
			return false
		}
		_, m := protowire.ConsumeVarint(rest[n:])
		if m < 0 {
			return false
		}
		rest = rest[n+m:]
	}
	var t timestamppb.Timestamp
	return proto.Unmarshal(b, &t) == nil && t.IsValid()
}

// eachField calls f with every length-delimited field of a message, up to where it is none.
func eachField(b []byte, f func(protowire.Number, []byte)) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		m := protowire.ConsumeFieldValue(num, typ, b[n:])
		if m < 0 {
			return
		}
		if typ == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(b[n:])
			f(num, v)
		}
		b = b[n+m:]
	}
}
