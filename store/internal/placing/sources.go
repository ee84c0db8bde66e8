package placing

import (
	"encoding/binary"

	"github.com/leasehold/leasehold/core"
)

// EncodeSources writes the source ids of a scheduled segment.
func EncodeSources(list []core.SegmentSource) []byte {
	buf := []byte{}
	for _, s := range list {
		buf = binary.AppendUvarint(buf, uint64(s.Index)) //nolint:gosec // an index
		buf = binary.AppendUvarint(buf, uint64(len(s.SourceID)))
		buf = append(buf, s.SourceID...)
	}
	return buf
}

// DecodeSources reads what EncodeSources wrote; a nil answer is no source id.
func DecodeSources(buf []byte) ([]core.SegmentSource, error) {
	var out []core.SegmentSource
	for len(buf) > 0 {
		i, n := binary.Uvarint(buf)
		if n <= 0 {
			return nil, core.Errorf(core.CodeFormat, "read schedule", "the source ids are damaged")
		}
		buf = buf[n:]
		length, n := binary.Uvarint(buf)
		if n <= 0 || length > uint64(len(buf)) || int(length) > len(buf)-n { //nolint:gosec // compared with a length
			return nil, core.Errorf(core.CodeFormat, "read schedule", "the source ids are damaged")
		}
		buf = buf[n:]
		out = append(out, core.SegmentSource{Index: int(i), SourceID: string(buf[:length])}) //nolint:gosec // written from an int
		buf = buf[length:]
	}
	return out, nil
}
