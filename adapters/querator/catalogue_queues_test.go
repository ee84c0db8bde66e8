package querator_test

import "github.com/leasehold/leasehold/adapters/querator"

// nameRows are the rows about names that making, changing and deleting share.
func nameRows(path string) []row {
	return []row{
		{name: "EmptyRequest", path: path, body: `{}`, want: bad(textNameEmpty)},
		{name: "InvalidQueue", path: path, body: `{"queue_name":"invalid~queue"}`, want: bad(textTilde)},
		{name: "QueueNameMaxLength", path: path, body: `{"queue_name":"<long 2001>"}`, want: bad("queue name is invalid; cannot be greater than '512' characters")},
		{name: "QueueWhiteSpace", path: path, body: `{"queue_name":"Friendship is Magic"}`, in: notR1, want: bad("queue name is invalid; 'Friendship is Magic' cannot contain whitespace")},
		{name: "InvalidQueueName", path: path, body: `{"queue_name":"invalid queue~name"}`, in: notR1, want: bad("queue name is invalid; 'invalid queue~name' cannot contain whitespace")},
	}
}

// recordRows are the rows about everything else in a queue's record, in a request about name.
func recordRows(path, name string) []row {
	r := func(more string) string {
		return `{"queue_name":"` + name + `","{lease}_timeout":"1m","{expire}_timeout":"10m","requested_partitions":1` + more + `}`
	}
	timed := func(lease, expire string) string {
		return `{"queue_name":"` + name + `","{lease}_timeout":"` + lease + `","{expire}_timeout":"` + expire + `","requested_partitions":1}`
	}
	return []row{
		{name: "ReferenceMaxLength", path: path, body: r(`,"reference":"<long 2001>"`), want: bad("reference field is invalid; cannot be greater than '2000' characters")},
		{name: "LeaseTimeoutMaxLength", path: path, body: timed("<long 16>", "10m"), want: bad("{lease} timeout is invalid; cannot be greater than '15' characters")},
		{name: "ExpireTimeoutMaxLength", path: path, body: timed("1m", "<long 16>"), want: bad("{expire} timeout is invalid; cannot be greater than '15' characters")},
		{name: "LeaseTimeoutTooLong", path: path, body: timed("1h", "30m"), want: bad("{lease} timeout is too long; 1h0m0s cannot be greater than the {expire} timeout 30m0s")},
		{name: "InvalidLeaseTimeout", path: path, body: timed("foo", "10m"), want: bad(`{lease} timeout is invalid; time: invalid duration "foo"{dash}expected format: 8m, 15m or 1h`)},
		{name: "InvalidExpireTimeout", path: path, body: timed("1m", "foo"), want: bad(`{expire} timeout is invalid; time: invalid duration "foo" - expected format: 60m, 2h or 24h`)},
		{name: "InvalidDeadLetterQueue", path: path, body: r(`,"dead_queue":"invalid~deadLetter"`), want: bad("dead queue is invalid; 'invalid~deadLetter' cannot contain '~' character")},
		{name: "DeadQueueWhitespace", path: path, body: r(`,"dead_queue":"a b"`), in: notR1, want: bad("dead queue is invalid; 'a b' cannot contain whitespace")},
		{name: "DeadQueueTooLong", path: path, body: r(`,"dead_queue":"<long 501>"`), in: leaseOnly, want: bad("dead queue is invalid; cannot be greater than '500' characters")},
		{name: "DeadQueueTooLong", path: path, body: r(`,"dead_queue":"<long 513>"`), in: reserveOnly, want: bad("dead queue is invalid; cannot be greater than '512' characters")},
		{name: "InvalidNegativeMaxAttempts", path: path, body: r(`,"max_attempts":-2147483648`), want: bad("max attempts is invalid; cannot be negative number")},
		{name: "InvalidMinAttempts", path: path, body: r(`,"max_attempts":-1`), want: bad("max attempts is invalid; cannot be negative number")},
		{name: "InvalidMaxAttempts", path: path, body: r(`,"max_attempts":2147483647`), want: bad("max attempts is invalid; cannot be greater than 65536")},
		{name: "NegativePartitions", path: path, body: `{"queue_name":"` + name + `","{lease}_timeout":"1m","{expire}_timeout":"10m","requested_partitions":-1}`, want: bad("partitions is invalid; cannot be less than 1")},
		{
			name: "NonExistentDLQ", path: path, body: r(`,"dead_queue":"no-such"`), in: leaseOnly, want: bad("dead_queue does not exist; 'no-such' was not found, create it first"),
			other: map[querator.Generation]outcome{querator.L1: bad("dead_queue 'no-such' does not exist; create it first")},
		},
		{name: "SelfReference", path: path, body: r(`,"dead_queue":"` + name + `"`), in: leaseOnly, want: bad("dead_queue cannot reference itself")},
		{
			name: "DLQHasDLQ", path: path, body: r(`,"dead_queue":"chained"`), in: leaseOnly, want: bad("dead_queue is invalid; 'chained' already has its own dead_queue configured"),
			other: map[querator.Generation]outcome{querator.L1: bad("dead_queue 'chained' cannot have its own dead_queue")},
		},
	}
}

func createRows() []row {
	const path = "/v1/queues.create"
	spaced := func(namespace string) string {
		return `{"queue_name":"new","lease_timeout":"1m","expire_timeout":"10m","requested_partitions":1,"namespace":"` + namespace + `"}`
	}
	rows := append(nameRows(path), recordRows(path, "new")...)
	return append(rows, []row{
		{name: "AlreadyExists", path: path, body: `{"queue_name":"q","{lease}_timeout":"1m","{expire}_timeout":"10m","requested_partitions":1}`, want: bad("invalid queue; 'q' already exists")},
		{name: "MissingLeaseTimeout", path: path, body: `{"queue_name":"new","{expire}_timeout":"10m","requested_partitions":1}`, want: bad("{lease} timeout is invalid; cannot be empty")},
		{name: "MissingExpireTimeout", path: path, body: `{"queue_name":"new","{lease}_timeout":"1m","requested_partitions":1}`, want: bad("{expire} timeout is invalid; cannot be empty")},
		{name: "NoPartitions", path: path, body: `{"queue_name":"new","{lease}_timeout":"1m","{expire}_timeout":"10m"}`, want: bad("partitions is invalid; cannot be less than 1")},
		{name: "NamespaceContainsTilde", path: path, body: spaced("invalid~namespace"), in: newestOnly, want: bad("namespace name is invalid; 'invalid~namespace' cannot contain '~' character")},
		{name: "NamespaceContainsColon", path: path, body: spaced("invalid:namespace"), in: newestOnly, want: bad("namespace name is invalid; 'invalid:namespace' cannot contain ':' character")},
		{name: "NamespaceContainsWhitespace", path: path, body: spaced("invalid namespace"), in: newestOnly, want: bad("namespace name is invalid; 'invalid namespace' cannot contain whitespace")},
		{name: "NamespaceExceedsMaxLength", path: path, body: spaced("<long 300>"), in: newestOnly, want: bad("namespace name is invalid; cannot be greater than '256' characters")},
		{name: "UnknownNamespace", path: path, body: spaced("nowhere"), in: newestOnly, want: outcome{453, "namespace does not exist; 'nowhere' was not found"}},
		{name: "NamespaceBeforeItExisted", path: path, body: `{"queue_name":"new","namespace":"x"}`, in: []querator.Generation{querator.R1, querator.R2, querator.L1}, want: outcome{455, `…unknown field "namespace"`}},
	}...)
}

func updateRows() []row {
	const path = "/v1/queues.update"
	old := outcome{453, "queue does not exist"}
	rows := append(nameRows(path), recordRows(path, "q")...)
	return append(rows, row{
		name: "NoSuchQueue", path: path, body: `{"queue_name":"nope"}`, want: bad(textNoQueue),
		other: map[querator.Generation]outcome{querator.R1: old, querator.R2: old, querator.L1: old},
	})
}
