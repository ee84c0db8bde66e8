package queen

import (
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// spoolVersion is the first byte of a spooled message.
const spoolVersion = 1

// encodeItem writes a message as it lies in the spool.
func encodeItem(it *core.PushItem) []byte {
	b := make([]byte, 0, 64+len(it.Queue)+len(it.Partition)+len(it.TransactionID)+len(it.Payload))
	b = append(b, spoolVersion, byte(it.ContentType))
	b = append(b, it.ID[:]...)
	b = binary.AppendVarint(b, int64(it.CreatedAt))
	for _, text := range []string{it.Queue, it.Partition, it.TransactionID, it.TraceID, it.Subject} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	return append(b, it.Payload...)
}

// decodeItem reads a spooled message; its payload shares the memory.
func decodeItem(b []byte) (core.PushItem, error) {
	var it core.PushItem
	bad := core.Errorf(core.CodeFormat, "read spool", "a record of the spool is no message")
	if len(b) < 18 || b[0] != spoolVersion {
		return it, bad
	}
	it.ContentType = core.ContentType(b[1])
	it.ID, b = uuid.UUID(b[2:18]), b[18:]
	at, n := binary.Varint(b)
	if n <= 0 {
		return it, bad
	}
	it.CreatedAt, b = core.Time(at), b[n:]
	for _, text := range []*string{&it.Queue, &it.Partition, &it.TransactionID, &it.TraceID, &it.Subject} {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) { //nolint:gosec // not negative
			return it, bad
		}
		*text, b = string(b[n:n+int(size)]), b[n+int(size):] //nolint:gosec // at most the length of b
	}
	it.Payload = b
	return it, nil
}
