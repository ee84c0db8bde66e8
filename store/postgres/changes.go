package postgres

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// changes are what a commit tells other gateways, see core.Followed.
type changes struct {
	logs   []int64
	rows   []core.RowKey
	queues []uuid.UUID
}

// encodeRows writes row keys group by group: the name once, then the keys of its partitions as differences.
func encodeRows(list []core.RowKey) []byte {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b core.RowKey) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Partition, b.Partition))
	})
	list = slices.Compact(list)
	out := []byte{}
	for len(list) > 0 {
		group := list[0].Group
		n := slices.IndexFunc(list, func(k core.RowKey) bool { return k.Group != group })
		if n < 0 {
			n = len(list)
		}
		out = binary.AppendUvarint(out, uint64(len(group)))
		out = append(out, group...)
		out = binary.AppendUvarint(out, uint64(n))
		last := core.PartitionKey(0)
		for _, k := range list[:n] {
			out = binary.AppendVarint(out, int64(k.Partition-last))
			last = k.Partition
		}
		list = list[n:]
	}
	return out
}

// decodeRows reads what encodeRows wrote.
func decodeRows(buf []byte) ([]core.RowKey, error) {
	damaged := core.Errorf(core.CodeFormat, "follow", "the changed rows of a commit are damaged")
	var out []core.RowKey
	for len(buf) > 0 {
		length, n := binary.Uvarint(buf)
		if n <= 0 || length > uint64(len(buf)-n) { //nolint:gosec // n is at most the length
			return nil, damaged
		}
		group := string(buf[n : n+int(length)]) //nolint:gosec // at most the length
		buf = buf[n+int(length):]               //nolint:gosec // at most the length
		count, n := binary.Uvarint(buf)
		if n <= 0 || count > uint64(len(buf)) {
			return nil, damaged
		}
		buf = buf[n:]
		key := core.PartitionKey(0)
		for range count {
			d, n := binary.Varint(buf)
			if n <= 0 {
				return nil, damaged
			}
			key += core.PartitionKey(d)
			out = append(out, core.RowKey{Partition: key, Group: group})
			buf = buf[n:]
		}
	}
	return out, nil
}
