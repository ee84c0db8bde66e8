package queen

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

func newParser() *server { return &server{o: Options{Batch: DefaultBatch, Timeout: DefaultTimeout}} }

func TestParsePop(t *testing.T) {
	s := newParser()
	p, err := s.parsePop("")
	require.NoError(t, err)
	assert.Equal(t, popParams{batch: 200, partitions: 1, timeout: 30 * time.Second, group: core.QueueModeGroup}, p)

	p, err = s.parsePop("batch=50&partitions=4&wait=TRUE&timeout=10000&leaseSeconds=120&consumerGroup=a+b%2Bc;d&autoAck=1&namespace=n&task=t&x=%zz&%zz=1&autopilot=true")
	require.NoError(t, err)
	assert.Equal(t, popParams{
		batch: 50, partitions: 4, wait: true, autoAck: true, timeout: 10 * time.Second, lease: 2 * time.Minute,
		group: "a b+c;d", namespace: "n", task: "t", autopilot: true, hasPartitions: true,
	}, p)
	assert.Equal(t, 9900*time.Millisecond, p.waiting())
}

func TestParsePopBounds(t *testing.T) {
	s := newParser()
	for query, check := range map[string]func(popParams) bool{
		"batch=0":                                       func(p popParams) bool { return p.batch == 1 },
		"batch=-1":                                      func(p popParams) bool { return p.batch == 1 },
		"batch=9223372036854775807":                     func(p popParams) bool { return p.batch == maxBatch },
		"partitions=0":                                  func(p popParams) bool { return p.partitions == 0 },
		"partitions=-3":                                 func(p popParams) bool { return p.partitions == 0 },
		"timeout=-1&wait=1":                             func(p popParams) bool { return p.waiting() == 0 },
		"timeout=9223372036854775807":                   func(p popParams) bool { return p.timeout == maxTimeout },
		"timeout=999&wait=true":                         func(p popParams) bool { return p.waiting() == 999*time.Millisecond },
		"timeout=1000&wait=true":                        func(p popParams) bool { return p.waiting() == 900*time.Millisecond },
		"timeout=30000&wait=false":                      func(p popParams) bool { return p.waiting() == 0 },
		"leaseSeconds=0":                                func(p popParams) bool { return p.lease == 0 },
		"leaseSeconds=-9":                               func(p popParams) bool { return p.lease == 0 },
		"leaseSeconds=9223372036854775807":              func(p popParams) bool { return p.lease > 0 },
		"consumerGroup=":                                func(p popParams) bool { return p.group == core.QueueModeGroup },
		"consumerGroup":                                 func(p popParams) bool { return p.group == core.QueueModeGroup },
		"subscriptionMode=new":                          func(p popParams) bool { return p.subscribeNew },
		"subscriptionMode=new-only":                     func(p popParams) bool { return p.subscribeNew },
		"subscriptionMode=from_beginning":               func(p popParams) bool { return !p.subscribeNew },
		"subscriptionFrom=now":                          func(p popParams) bool { return p.subscribeNew },
		"subscriptionFrom=garbage&subscriptionMode=new": func(p popParams) bool { return p.subscribeNew && p.subscribeFrom == 0 },
		"subscriptionFrom=2026-01-02T03:04:05Z&subscriptionMode=new": func(p popParams) bool {
			return !p.subscribeNew && p.subscribeFrom == core.Time(1767323045000000)
		},
		"subscriptionFrom=2026-01-02T04:04:05.5%2B01:00": func(p popParams) bool { return p.subscribeFrom == core.Time(1767323045500000) },
		"subscriptionFrom=2026-01-02T04:04:05.5+01:00":   func(p popParams) bool { return p.subscribeFrom == core.Time(1767323045500000) },
		"subscriptionFrom=1970-01-01T00:00:00Z":          func(p popParams) bool { return p.subscribeFrom == 1 },
	} {
		p, err := s.parsePop(query)
		require.NoError(t, err, query)
		assert.True(t, check(p), "%s: %+v", query, p)
	}
}

func TestParsePopRefusals(t *testing.T) {
	s := newParser()
	for query, want := range map[string]string{
		"batch=abc":                        `query parameter "batch" must be an integer`,
		"batch=":                           `query parameter "batch" must be an integer`,
		"batch=1.5":                        `query parameter "batch" must be an integer`,
		"timeout=99999999999999999999":     `query parameter "timeout" must be an integer`,
		"wait=yes":                         `query parameter "wait" must be a boolean`,
		"wait=":                            `query parameter "wait" must be a boolean`,
		"autoAck=2":                        `query parameter "autoAck" must be a boolean`,
		"consumerGroup=%zz":                `query parameter "consumerGroup" must be percent-encoded correctly`,
		"consumerGroup=%ff":                `query parameter "consumerGroup" must be valid UTF-8`,
		"consumerGroup=%1f":                `query parameter "consumerGroup" must not contain the byte 0x1F`,
		"leaseSeconds=1e3&consumerGroup=g": `query parameter "leaseSeconds" must be an integer`,
	} {
		_, err := s.parsePop(query)
		require.EqualError(t, err, want, query)
	}
}

func FuzzParsePop(f *testing.F) {
	f.Add("batch=5&wait=true&timeout=30000&consumerGroup=g&subscriptionFrom=2026-01-02T03:04:05Z")
	f.Add("limit=5&offset=-1&queue=a%2Bb&from=2026-01-02T03:04:05+01:00")
	f.Fuzz(func(t *testing.T, query string) {
		if p, err := newParser().parsePop(query); err == nil {
			require.True(t, p.batch >= 1 && p.waiting() >= 0 && p.lease >= 0 && p.group != "")
			require.NoError(t, checkName("", p.group))
		}
		if p, err := parseDLQ(query); err == nil {
			require.True(t, p.limit >= 0 && p.limit <= maxDLQLimit && p.offset >= 0)
		}
		// Where net/url reads the same parameter, both read the same value.
		values, err := url.ParseQuery(query)
		if p, mine := newParser().parsePop(query); err == nil && mine == nil && len(values["namespace"]) == 1 {
			require.Equal(t, values.Get("namespace"), p.namespace)
		}
	})
}
