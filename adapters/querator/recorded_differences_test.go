package querator_test

import "strings"

// difference is what ours answers in another way than the recorded originals, on purpose.
type difference struct {
	// generations (with commas between) and titles (with bars between) name the exchanges.
	generations, titles string
	// why says what differs and why ours is right.
	why string
}

var differences = []difference{
	{
		"L1,L2,R1,R2", "produce bad base64|json wrong type",
		"the decoder's own words, which newer versions of the protobuf runtime changed; the code is the same",
	},
	{
		"L1,L2,R1,R2", "list",
		"queues are listed by name, as the originals do on disk; in memory they listed them in the order of creation, and a pivot could miss some",
	},
	{
		"R1", "no content type|json with charset|json numeric string|bad auth header|bearer under no auth",
		"queues are listed by name",
	},
	{
		"L1,L2,R1,R2", "protobuf request, default reply|garbage protobuf",
		"protobuf without an Accept header is answered in protobuf: every official client reads it, and is spared the JSON names of other generations",
	},
	{
		"L1,L2,R1,R2", "complete first again after the failed request",
		"a completion that fails changes nothing, so that the first id is still leased and can be completed",
	},
	{"L1", "retry same id again", "an item that was retried stands at the tail under a new id, as in the newest generation"},
	{
		"L1,L2", "stats",
		"total_leased counts what is leased now; it only ever grew",
	},
	{"R1,R2", "stats", "queue.defer is served, and the cleared queue has nothing leased any more"},
	{
		"L1,L2,R1,R2", "create: negative lease timeout",
		"a negative timeout is refused: every item of such a queue was lost",
	},
	{
		"L1,L2,R1,R2", "list u1 (stored info after partial update)",
		"an update changes what it names, and the reference was not named",
	},
	{"L1,L2", "info u1 (live info after partial update)", "queues.info shows the updated record; it showed the old one until a restart"},
	{
		"L2", "lease from u1 again by another client",
		"the first lease holds its item: a partial update no longer zeroes the lease timeout of the running queue",
	},
	{
		"R1", "lease 2|lease rest (batch 1000 > available)|storage list|lease from u1 (deadline after partial update?)",
		"attempts are counted from the first lease on, as in every later build",
	},
	{
		"R1,R2", "retry empty|retry no items|retry bad id|retry missing id|retry with request_timeout field|retry not leased|retry now|" +
			"retry same id again|retry at +3s|retry dead|bad timestamp format",
		"queue.defer was documented and never served; it is served",
	},
	{"R1,R2", "clear queue", "the flag is read under the name that the 2024-09 document prints, too"},
}

// recordedDifferences is differences by generation and title. One that no longer differs fails.
var recordedDifferences = func() map[string]string {
	out := map[string]string{}
	for _, d := range differences {
		for _, g := range strings.Split(d.generations, ",") {
			for _, title := range strings.Split(d.titles, "|") {
				out[g+" "+title] = d.why
			}
		}
	}
	return out
}()
