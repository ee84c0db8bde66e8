package querator

import "strconv"

// Body limits in bytes, as sent.
const (
	limitClaim    = 512
	limitStats    = 512
	limitComplete = 256_000
	limitQueues   = 256_000
	limitUpdate   = 512_000
	limitImport   = 64_000_000
)

// formatSize spells a limit as the originals do: by powers of 1024 when the limit is a multiple
// of 1024, else by powers of 1000.
func formatSize(n int64) string {
	base, units := int64(1000), []string{"kB", "MB", "GB", "TB"}
	if n%1024 == 0 && n > 0 {
		base, units = 1024, []string{"KiB", "MiB", "GiB", "TiB"}
	}
	if n < base {
		return strconv.FormatInt(n, 10) + "B"
	}
	v, unit := float64(n)/float64(base), units[0]
	for _, u := range units[1:] {
		if v < float64(base) {
			break
		}
		v, unit = v/float64(base), u
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + unit
}
