package querator_test

import (
	"slices"

	"github.com/leasehold/leasehold/adapters/querator"
)

// Texts that many rows share.
const (
	textNameEmpty   = "queue name is invalid; queue name cannot be empty"
	textTilde       = "queue name is invalid; 'invalid~queue' cannot contain '~' character"
	textNoQueue     = "queue does not exist; no such queue named 'nope'"
	textTimeout     = "request timeout is required; '5m' is recommended, 15m is the maximum"
	textBadTimeout  = `request timeout is invalid; time: invalid duration "foo" - expected format: 900ms, 5m or 15m`
	textPartition   = "partition is invalid; '65234' is not a valid partition"
	textMalformedID = "invalid storage id; 'invalid-id': Valid encoded KSUIDs are 27 characters"
	freshID         = "0ujtsYcgvSTl8PAuAdqWYSMnLOv"
)

var (
	reserveOnly = []querator.Generation{querator.R1, querator.R2}
	leaseOnly   = []querator.Generation{querator.L1, querator.L2}
	newestOnly  = []querator.Generation{querator.L2}
	notR1       = []querator.Generation{querator.R2, querator.L1, querator.L2}
	bad         = func(text string) outcome { return outcome{400, text} }
	ok          = outcome{code: 200}
	unserved    = func(path string) outcome { return outcome{501, "no such method; " + path} }
)

// catalogue is §7 of the protocol: every row with the case that it is of. Rows that succeed stand
// at the end of their section.
func catalogue() []row {
	return slices.Concat(produceRows(), leaseRows(), completeRows(), retryRows(), clearRows(), createRows(), updateRows(), listRows(), storageRows())
}

func produceRows() []row {
	const path = "/v1/queue.produce"
	q := func(more string) string { return `{"queue_name":"q"` + more + `}` }
	return []row{
		{name: "EmptyRequest", path: path, body: `{}`, want: bad(textNameEmpty)},
		{name: "InvalidQueue", path: path, body: `{"queue_name":"invalid~queue"}`, want: bad(textTilde)},
		{name: "UnknownQueue", path: path, body: `{"queue_name":"nope","request_timeout":"1m","items":[{}]}`, want: bad(textNoQueue)},
		{name: "NoItemsNilPointer", path: path, body: q(`,"request_timeout":"1m"`), want: bad("items cannot be empty; at least one item is required")},
		{name: "NoItemsEmptyList", path: path, body: q(`,"request_timeout":"1m","items":[]`), want: bad("items cannot be empty; at least one item is required")},
		{name: "RequestTimeoutIsRequired", path: path, body: q(`,"items":[{}]`), want: bad(textTimeout)},
		{name: "RequestTimeoutTooLong", path: path, body: q(`,"items":[{}],"request_timeout":"16m"`), want: bad("request timeout is invalid; maximum timeout is '15m' but '16m0s' was requested")},
		{name: "RequestTimeoutAtTheMaximum", path: path, body: q(`,"items":[{}],"request_timeout":"15m"`), want: bad("request timeout is invalid; maximum timeout is '15m' but '15m0s' was requested")},
		{name: "RequestTimeoutAtTheMinimum", path: path, body: q(`,"items":[{}],"request_timeout":"10ms"`), want: bad("request timeout is invalid; minimum timeout is '10ms' but '10ms' was requested")},
		{name: "RequestTimeoutNegative", path: path, body: q(`,"items":[{}],"request_timeout":"-5s"`), want: bad("request timeout is invalid; minimum timeout is '10ms' but '-5s' was requested")},
		{name: "InvalidRequestTimeout", path: path, body: q(`,"items":[{}],"request_timeout":"foo"`), want: bad(textBadTimeout)},
		{name: "MaxNumberOfItems", path: path, body: q(`,"request_timeout":"1m","items":[<1001 items>]`), want: bad("items is invalid; max_produce_batch_size is 1000 but received 1001")},
		{name: "ItemsWithNoPayloadAreOkay", path: path, body: `{"queue_name":"dead","request_timeout":"5m","items":[{},{}]}`, want: ok},
	}
}

func leaseRows() []row {
	const path = "/v1/queue.{lease}"
	c := func(more string) string { return `{"queue_name":"q","client_id":"c"` + more + `}` }
	one := func(timeout string) string { return c(`,"batch_size":1,"request_timeout":"` + timeout + `"`) }
	return []row{
		{name: "EmptyRequest", path: path, body: `{}`, want: bad(textNameEmpty)},
		{name: "InvalidQueue", path: path, body: `{"queue_name":"invalid~queue"}`, want: bad(textTilde)},
		{name: "UnknownQueue", path: path, body: `{"queue_name":"nope","client_id":"c","batch_size":1,"request_timeout":"1m"}`, want: bad(textNoQueue)},
		{name: "ClientIdMissing", path: path, body: `{"queue_name":"q"}`, want: bad("invalid client id; cannot be empty")},
		{name: "ClientIdBlank", path: path, body: `{"queue_name":"q","client_id":" "}`, want: bad("invalid client id; cannot be empty")},
		{name: "BatchSizeCannotBeEmpty", path: path, body: c(""), want: bad("invalid batch size; must be greater than zero")},
		{name: "BatchSizeMaximum", path: path, body: c(`,"batch_size":1001`), want: bad("invalid batch size; max_{lease}_batch_size is 1000, but 1001 was requested")},
		{name: "RequestTimeoutRequired", path: path, body: c(`,"batch_size":1`), want: bad(textTimeout)},
		{name: "RequestTimeoutTooLong", path: path, body: one("16m"), want: bad("request timeout is invalid; maximum timeout is '15m' but '16m0s' {over}")},
		{name: "RequestTimeoutInvalid", path: path, body: one("foo"), want: bad(textBadTimeout)},
		{name: "MinimumRequestTimeoutIsAllowed", path: path, body: one("10ms"), want: bad("request timeout is invalid; minimum timeout is '10ms' but '10ms' was requested")},
		{name: "RequestTimeoutIsTooShort", path: path, body: one("1ms"), want: bad("request timeout is invalid; minimum timeout is '10ms' but '1ms' was requested")},
		{name: "BodyTooLarge", path: path, body: c(`,"batch_size":1,"request_timeout":"<long 600>"`), want: bad("request body exceeds 512B limit")},
	}
}

func completeRows() []row {
	const path = "/v1/queue.complete"
	q := func(more string) string { return `{"queue_name":"q","request_timeout":"1m"` + more + `}` }
	return []row{
		{name: "EmptyRequest", path: path, body: `{}`, want: bad(textNameEmpty)},
		{name: "IdsCannotBeEmpty", path: path, body: q(""), want: bad("ids is invalid; list of ids cannot be empty")},
		{name: "RequestTimeoutRequired", path: path, body: `{"queue_name":"q","ids":["x"]}`, want: bad(textTimeout)},
		{name: "RequestTimeoutTooShort", path: path, body: `{"queue_name":"q","ids":["x"],"request_timeout":"0ms"}`, want: bad(textTimeout)},
		{
			name: "InvalidPartition", path: path, body: q(`,"partition":65234,"ids":["x"]`), want: bad(textPartition),
			other: map[querator.Generation]outcome{querator.R1: {454, "partition not found; partition '65234' may have moved, retry again"}},
		},
		{name: "RequestTimeoutTooLong", path: path, body: `{"queue_name":"q","ids":["x"],"request_timeout":"16m0s"}`, want: bad("request timeout is invalid; maximum timeout is '15m' but '16m0s' {over}")},
		{name: "RequestTimeoutInvalid", path: path, body: `{"queue_name":"q","ids":["x"],"request_timeout":"foo"}`, want: bad(textBadTimeout)},
		{name: "InvalidIds", path: path, body: q(`,"ids":["invalid-id"]`), want: bad(textMalformedID)},
		{
			name: "InvalidAlphabet", path: path, body: q(`,"ids":["!!!!!!!!!!!!!!!!!!!!!!!!!!!"]`),
			want: bad("invalid storage id; '!!!!!!!!!!!!!!!!!!!!!!!!!!!': Valid encoded KSUIDs are bounded by 000000000000000000000000000 and aWgEPTl1tmebfsQzFP4bxwgy80V"),
		},
		{name: "MaxNumberOfIds", path: path, body: q(`,"ids":[<1001 ids>]`), want: bad("ids is invalid; max_complete_batch_size is 1000 but received 1001")},
		{name: "NotLeased", path: path, body: q(`,"ids":["<unleased>"]`), want: bad("item(s) cannot be completed; '<unleased>' is not marked as {leased}")},
		{name: "AttemptCompleteOldId", path: path, body: q(`,"ids":["<gone>"]`), want: bad("invalid storage id; '<gone>' does not exist")},
		{name: "DoesNotExist", path: path, body: q(`,"ids":["` + freshID + `"]`), want: bad("invalid storage id; '" + freshID + "' does not exist")},
		{name: "TimeoutBeforeItems", path: path, body: `{"queue_name":"q","request_timeout":"foo"}`, want: bad(textBadTimeout)},
	}
}

func retryRows() []row {
	const path = "/v1/queue.{retry}"
	return []row{
		{name: "EmptyRequest", path: path, body: `{}`, want: bad(textNameEmpty)},
		{name: "EmptyItems", path: path, body: `{"queue_name":"q","items":[]}`, want: bad("items is invalid; list of items cannot be empty")},
		{
			name: "InvalidPartition", path: path, body: `{"queue_name":"q","partition":65234,"items":[{"id":"x"}]}`, want: bad(textPartition),
			other: map[querator.Generation]outcome{querator.R1: {454, "partition not found; partition '65234' may have moved, retry again"}},
		},
		{name: "InvalidId", path: path, body: `{"queue_name":"q","items":[{"id":"invalid-id"}]}`, want: bad(textMalformedID)},
		{name: "DoesNotExist", path: path, body: `{"queue_name":"q","items":[{"id":"` + freshID + `"}]}`, want: bad("invalid storage id; '" + freshID + "' does not exist")},
		{
			name: "RetryNotLeased", path: path, body: `{"queue_name":"q","items":[{"id":"<unleased>"}]}`, in: leaseOnly,
			want: bad("item(s) cannot be retried; '<unleased>' is not marked as leased"),
		},
		{
			name: "DeferNotReserved", path: path, body: `{"queue_name":"q","items":[{"id":"<unleased>"}]}`, in: reserveOnly,
			want: bad("item(s) cannot be deferred; '<unleased>' is not marked as reserved"),
		},
		{name: "MaxNumberOfItems", path: path, body: `{"queue_name":"q","items":[<1001 items>]}`, want: bad("items is invalid; max_complete_batch_size is 1000 but received 1001")},
	}
}

func clearRows() []row {
	reload := map[querator.Generation]outcome{}
	for _, g := range []querator.Generation{querator.R1, querator.R2, querator.L1} {
		reload[g] = unserved("/v1/queue.reload")
	}
	return []row{
		{name: "InvalidQueueName", path: "/v1/queue.reload", body: `{"queue_name":"invalid~queue"}`, want: bad(textTilde), other: reload},
		{name: "NonExistentQueue", path: "/v1/queue.reload", body: `{"queue_name":"nope"}`, want: bad(textNoQueue), other: reload},
		{
			name: "NoFlag", path: "/v1/queue.clear", body: `{"queue_name":"q"}`, want: bad("invalid clear request; one of 'queue', 'scheduled' must be true"),
			other: map[querator.Generation]outcome{
				querator.R1: bad("invalid clear request; one of 'queue', 'defer', 'scheduled' must be true"),
				querator.R2: bad("invalid clear request; one of 'queue', 'defer', 'scheduled' must be true"),
				querator.L1: bad("invalid clear request; one of 'queue', 'retry', 'scheduled' must be true"),
			},
		},
		{name: "OnlyDestructive", path: "/v1/queue.clear", body: `{"queue_name":"q","destructive":true}`, want: bad("…must be true")},
		{name: "UnknownQueue", path: "/v1/queue.clear", body: `{"queue_name":"nope"}`, want: bad(textNoQueue)},
		{name: "UnknownQueue", path: "/v1/queue.stats", body: `{"queue_name":"nope"}`, want: bad(textNoQueue)},
		{name: "EmptyRequest", path: "/v1/queue.stats", body: `{}`, want: bad(textNameEmpty)},
	}
}

func listRows() []row {
	info := map[querator.Generation]outcome{querator.R1: unserved("/v1/queues.info"), querator.R2: unserved("/v1/queues.info")}
	const listed, deleted = "/v1/queues.list", "/v1/queues.delete"
	return []row{
		{name: "InvalidLimitNegative", path: listed, body: `{"limit":-1}`, want: bad("limit is invalid; limit cannot be negative")},
		{name: "InvalidLimitMaximum", path: listed, body: `{"limit":2147483647}`, want: bad("limit is invalid; cannot be greater than 65536")},
		{name: "InvalidPivot", path: listed, body: `{"pivot":"invalid~queue"}`, want: bad("pivot is invalid; 'invalid~queue' cannot contain '~' character")},
		{name: "EmptyRequest", path: deleted, body: `{}`, want: bad(textNameEmpty)},
		{name: "InvalidQueue", path: deleted, body: `{"queue_name":"invalid~queue"}`, want: bad(textTilde)},
		{name: "QueueNameMaxLength", path: deleted, body: `{"queue_name":"<long 2001>"}`, want: bad("queue name is invalid; cannot be greater than '512' characters")},
		{name: "QueueWhiteSpace", path: deleted, body: `{"queue_name":"Friendship is Magic"}`, in: notR1, want: bad("queue name is invalid; 'Friendship is Magic' cannot contain whitespace")},
		{
			name: "UnknownQueue", path: deleted, body: `{"queue_name":"nope"}`, want: bad(textNoQueue),
			other: map[querator.Generation]outcome{querator.R1: ok, querator.R2: ok, querator.L1: ok},
		},
		{name: "EmptyQueueName", path: "/v1/queues.info", body: `{}`, want: bad(textNameEmpty), other: info},
		{name: "WhitespaceQueueName", path: "/v1/queues.info", body: `{"queue_name":"   "}`, want: bad(textNameEmpty), other: info},
		{name: "QueueNotFound", path: "/v1/queues.info", body: `{"queue_name":"nope"}`, want: bad(textNoQueue), other: info},
	}
}

func storageRows() []row {
	var rows []row
	for path, more := range map[string]string{
		"/v1/storage/items.list": "", "/v1/storage/items.import": `,"items":[{}]`, "/v1/storage/items.delete": `,"ids":["x"]`,
	} {
		rows = append(rows,
			row{name: "InvalidQueue", path: path, body: `{"queue_name":"invalid~queue"}`, want: bad(textTilde)},
			row{name: "EmptyRequest", path: path, body: `{}`, want: bad(textNameEmpty)},
			row{name: "UnknownQueue", path: path, body: `{"queue_name":"nope"` + more + `}`, want: bad(textNoQueue)},
			row{name: "InvalidPartition", path: path, body: `{"queue_name":"q","partition":1` + more + `}`, want: bad("partition is invalid; '1' is not a valid partition")},
			row{name: "OutOfBoundsPartition", path: path, body: `{"queue_name":"q","partition":500` + more + `}`, want: bad("partition is invalid; '500' is not a valid partition")},
			row{name: "PartitionBeforeItems", path: path, body: `{"queue_name":"q","partition":500}`, want: bad("partition is invalid; '500' is not a valid partition")},
		)
	}
	return append(rows,
		row{name: "NoItems", path: "/v1/storage/items.import", body: `{"queue_name":"q"}`, want: bad("items is invalid; cannot be empty")},
		row{name: "ItemsEmptyList", path: "/v1/storage/items.import", body: `{"queue_name":"q","items":[]}`, want: bad("items is invalid; cannot be empty")},
		row{name: "NoIds", path: "/v1/storage/items.delete", body: `{"queue_name":"q"}`, want: bad("ids is invalid; cannot be empty")},
		row{name: "IdsEmptyList", path: "/v1/storage/items.delete", body: `{"queue_name":"q","ids":[]}`, want: bad("ids is invalid; cannot be empty")},
		row{name: "InvalidIds", path: "/v1/storage/items.delete", body: `{"queue_name":"q","ids":["invalid-id"]}`, want: bad(textMalformedID)},
		row{name: "BadPivot", path: "/v1/storage/items.list", body: `{"queue_name":"q","pivot":"xx"}`, want: bad("invalid storage id; 'xx': Valid encoded KSUIDs are 27 characters")},
		row{name: "BadPivot", path: "/v1/storage/scheduled.list", body: `{"queue_name":"q","pivot":"xx"}`, in: leaseOnly, want: bad("invalid storage id; 'xx': Valid encoded KSUIDs are 27 characters")},
		row{name: "NotServed", path: "/v1/storage/scheduled.list", body: `{"queue_name":"q"}`, in: reserveOnly, want: unserved("/v1/storage/scheduled.list")},
		row{name: "NotServed", path: "/v1/storage/scheduled.add", body: `{"queue_name":"q"}`, want: unserved("/v1/storage/scheduled.add")},
		row{name: "NotServed", path: "/v1/queue.pause", body: `{"queue_name":"q"}`, want: unserved("/v1/queue.pause")},
		row{name: "NotServed", path: "/v1/queues.rebalance", body: `{"queue_name":"q"}`, want: unserved("/v1/queues.rebalance")},
	)
}
