package blackbox

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/cfqueues"
	"github.com/leasehold/leasehold/store/memory"
)

// TestNineWays sends payloads through every pair of a pushing and a reading protocol of the
// command as it is. Its Cloudflare listener takes messages of at most 128,000 bytes.
func TestNineWays(t *testing.T) {
	nineWays(t, Start(t, t.TempDir()).Target, 1_000_000, 127_000)
}

// TestNineWaysOfAMegabyteEach is the same with a Cloudflare limit that lets a megabyte in.
func TestNineWaysOfAMegabyteEach(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	target := InProcess(t, memory.New(), ProgramOptions{Cfqueues: cfqueues.Options{
		Limits: cfqueues.Limits{MaxMessageBytes: 2_000_000, MaxRequestBytes: 16 << 20},
	}})
	nineWays(t, target, 1_000_000, 1_000_000)
}

func nineWays(t *testing.T, target Target, large, cfLarge int) {
	t.Helper()
	c := NewClients(target)
	t.Cleanup(c.Conn.Close)
	prepareNine(t, c)
	passed := map[string]int{}
	for _, by := range []struct {
		protocol string
		payloads []payload
	}{
		{"queen", queenPayloads(large)},
		{"querator", queratorPayloads(large)},
		{"cfqueues", cfPayloads(cfLarge)},
	} {
		for _, p := range by.payloads {
			t.Run(by.protocol+"/"+strings.ReplaceAll(p.name, " ", "_"), func(t *testing.T) {
				for read, check := range map[string]func(*testing.T, *Clients, string, payload){
					"queen": readByQueen, "querator": readByQuerator, "cfqueues": readByCf,
				} {
					queue := "nine-" + by.protocol
					require.NoError(t, p.push(t.Context(), c, queue), "push for %s", read)
					check(t, c, queue, p)
					passed[by.protocol+" to "+read]++
				}
			})
		}
	}
	require.Len(t, passed, 9)
	t.Logf("payloads through each cell: %v", passed)
}

// prepareNine makes a queue by each protocol and lets the two others read it.
func prepareNine(t *testing.T, c *Clients) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, c.Queen.Configure(ctx, "nine-queen", `{}`))
	require.NoError(t, c.Querator.Create(ctx, QueratorQueue{
		Name: "nine-querator", LeaseTimeout: "1m", ExpireTimeout: "24h", Partitions: 1,
	}))
	_, err := c.Cf.Create(ctx, "nine-cfqueues")
	require.NoError(t, err)
	for _, queue := range []string{"nine-queen", "nine-querator", "nine-cfqueues"} {
		require.NoError(t, c.Cf.CreateConsumer(ctx, queue, CfConsumer{MaxRetries: 10}))
	}
}

func readByQueen(t *testing.T, c *Clients, queue string, p payload) {
	t.Helper()
	got, err := c.Queen.Pop(t.Context(), queue, "", url.Values{"batch": {"10"}})
	require.NoError(t, err)
	require.Len(t, got, 1)
	exact, decoded := p.queenData()
	if exact == "" && p.content == "text" {
		s, err := decodeString(got[0].Data)
		require.NoError(t, err)
		requireSame(t, decoded, s)
	} else {
		requireSame(t, exact, string(got[0].Data))
	}
	acked, err := c.Queen.Ack(t.Context(), "", QueenAck{
		TransactionID: got[0].TransactionID, PartitionID: got[0].PartitionID, LeaseID: got[0].LeaseID,
	})
	require.NoError(t, err)
	require.True(t, acked[0].Success)
	requireEmpty(t, c, queue)
}

func readByQuerator(t *testing.T, c *Clients, queue string, p payload) {
	t.Helper()
	got, err := c.Querator.Lease(t.Context(), queue, "nine", 10, time.Second)
	require.NoError(t, err)
	require.Len(t, got.Items, 1)
	item := got.Items[0]
	requireSame(t, p.raw, string(item.Bytes))
	labels := QueratorItem{Encoding: item.Encoding, Kind: item.Kind, Reference: item.Reference}
	require.Equal(t, p.item, labels)
	require.Equal(t, 1, item.Attempts)
	require.NoError(t, c.Querator.Complete(t.Context(), queue, got.Partition, item.ID))
	requireEmpty(t, c, queue)
}

func readByCf(t *testing.T, c *Clients, queue string, p payload) {
	t.Helper()
	got, err := c.Cf.Pull(t.Context(), queue, 10, 0)
	require.NoError(t, err)
	require.Len(t, got, 1)
	requireSame(t, p.cfBody(), got[0].Body)
	require.Equal(t, p.content, got[0].ContentType())
	require.Equal(t, "api", got[0].Metadata["CF-sourceMessageSource"])
	require.Equal(t, 1, got[0].Attempts)
	acked, err := c.Cf.Ack(t.Context(), queue, []string{got[0].LeaseID})
	require.NoError(t, err)
	require.Equal(t, 1, acked.AckCount)
	requireEmpty(t, c, queue)
}

// requireSame compares payloads without printing a megabyte.
func requireSame(t *testing.T, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	at := 0
	for at < len(want) && at < len(got) && want[at] == got[at] {
		at++
	}
	show := func(s string) string { return s[max(0, at-20):min(len(s), at+20)] }
	t.Fatalf("%d bytes instead of %d, the first difference at %d: want …%q…, got …%q…", len(got), len(want), at, show(want), show(got))
}

// requireEmpty makes sure by every protocol's counts that nothing of a queue is left.
func requireEmpty(t *testing.T, c *Clients, queue string) {
	t.Helper()
	left, err := backlogs(t.Context(), c, queue)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"queen": 0, "querator": 0, "cfqueues": 0}, left)
}

// backlogs are the messages of a queue that nobody has settled, as each protocol counts them.
func backlogs(ctx context.Context, c *Clients, queue string) (map[string]int64, error) {
	left := map[string]int64{}
	m, err := c.Cf.Metrics(ctx, queue)
	if err != nil {
		return nil, err
	}
	left["cfqueues"] = m.BacklogCount
	stats, _, err := c.Querator.Stats(ctx, queue)
	if err != nil {
		return nil, err
	}
	for _, s := range stats {
		left["querator"] += int64(s.Total + s.Scheduled)
	}
	left["queen"], err = c.Queen.Pending(ctx, queue)
	return left, err
}
