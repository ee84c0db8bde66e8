package postgres_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/conformance/testenv"
)

// outageQueue exists before a database goes away.
const outageQueue = "outage"

// outage is a way in which a database cannot be used.
type outage struct {
	name string
	// begin makes it so, and returns how to end it.
	begin func(t *testing.T, c *testenv.Cluster) (end func())
}

// setting changes a setting of the server until the outage ends.
func setting(name, value string) func(*testing.T, *testenv.Cluster) func() {
	return func(t *testing.T, c *testenv.Cluster) func() {
		t.Helper()
		c.Exec(t, "ALTER SYSTEM SET "+name+" = "+value)
		c.Exec(t, "SELECT pg_reload_conf()")
		c.Until(t, fmt.Sprintf("SELECT current_setting('%s') = '%s'", name, value))
		return func() {
			c.Exec(t, "ALTER SYSTEM RESET "+name)
			c.Exec(t, "SELECT pg_reload_conf()")
		}
	}
}

// noConnections takes all connections away from the gateway's user.
func noConnections(t *testing.T, c *testenv.Cluster) func() {
	t.Helper()
	c.Exec(t, "ALTER ROLE gateway CONNECTION LIMIT 0")
	c.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gateway'")
	c.Until(t, "SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'gateway'")
	return func() { c.Exec(t, "ALTER ROLE gateway CONNECTION LIMIT -1") }
}

func stopped(t *testing.T, c *testenv.Cluster) func() {
	t.Helper()
	c.Stop(t)
	return func() { c.Start(t) }
}

// tooOld has a server of a release that is too old in the database's place.
func tooOld(t *testing.T, c *testenv.Cluster) func() {
	t.Helper()
	c.Stop(t)
	gone := testenv.Old(t, c.Port)
	return func() {
		gone()
		c.Start(t)
	}
}

// outageServer is a cluster with a user that may make a schema and nothing else, and the URL of both.
func outageServer(t *testing.T) (c *testenv.Cluster, store string) {
	t.Helper()
	c = testenv.NewCluster(t)
	c.Exec(t, "CREATE ROLE gateway LOGIN")
	c.Exec(t, "GRANT CREATE ON DATABASE postgres TO gateway")
	return c, strings.Replace(c.URL(), "postgres@", "gateway@", 1)
}

// TestADatabaseThatCannotBeUsedYet starts gateways before their database can be used: they answer, in each protocol's words, that one should try
// again, and go on by themselves when it can.
func TestADatabaseThatCannotBeUsedYet(t *testing.T) {
	t.Parallel()
	c, store := outageServer(t)
	for i, o := range []outage{
		{"absent", stopped}, {"too old", tooOld}, {"read-only", setting("default_transaction_read_only", "on")}, {"out of connections", noConnections},
	} {
		t.Run(o.name, func(t *testing.T) {
			end := o.begin(t, c)
			g := launchGateway(t, fmt.Sprintf("%s&schema=outage_%d", store, i))
			for range 2 {
				g.refuses(t, outageQueue)
				g.refused(t, "a push", 500, `{"error":"pool"}`, "POST", g.Queen+"/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`)
			}
			assert.Equal(t, 1, g.count(lineDown), "one line tells of it")
			end()
			g.await(t, g.ready)
			g.serves(t)
		})
	}
}

// TestADatabaseThatGoesAway takes the database away from a gateway that works, in several ways one after the other.
func TestADatabaseThatGoesAway(t *testing.T) {
	t.Parallel()
	c, store := outageServer(t)
	g := startGateway(t, store)
	g.serves(t)
	for _, o := range []outage{
		{"stopped", stopped}, {"read-only", setting("default_transaction_read_only", "on")}, {"out of connections", noConnections},
	} {
		down := g.count(lineDown)
		end := o.begin(t, c)
		g.refuses(t, outageQueue)
		g.refuses(t, "never-seen")
		assert.Greater(t, g.count(lineDown), down, "a line tells that it is %s", o.name)
		end()
		g.serves(t)
		assert.Equal(t, g.count(lineDown), g.count(lineUp), "and one that it is over")
	}
}

// refuses makes sure that each protocol says that a request may be tried again.
func (g *gateway) refuses(t *testing.T, queue string) {
	t.Helper()
	const pool, retry, cloudflare = `{"error":"pool"}`, `{"code":454,"code_text":"Retry Request",`, `{"success":false,"errors":[{"code":15000,`
	for _, r := range []struct {
		status                    int
		body, method, path, asked string
	}{
		{500, pool, "POST", g.Queen + "/api/v1/configure", `{"queue":"` + queue + `","options":{}}`},
		{500, pool, "POST", g.Queen + "/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"` + queue + `","payload":1}]}]}`},
		{500, pool, "GET", g.Queen + "/api/v1/pop/queue/" + queue, ""},
		{500, pool, "GET", g.Queen + "/api/v1/resources/queues", ""},
		{454, retry, "POST", g.Querator + "/v1/queue.produce", `{"queueName":"` + queue + `","requestTimeout":"1s","items":[{"utf8":"x","encoding":"t"}]}`},
		{454, retry, "POST", g.Querator + "/v1/queues.list", `{}`},
		{454, retry, "POST", g.Querator + "/v1/queues.create", `{"queueName":"new","leaseTimeout":"1m","expireTimeout":"10m","requestedPartitions":1}`},
		{500, cloudflare, "POST", g.Cfqueues + "/accounts/a/queues", `{"queue_name":"new"}`},
		{500, cloudflare, "GET", g.Cfqueues + "/accounts/a/queues", ""},
		{500, cloudflare, "POST", g.Cfqueues + "/accounts/a/queues/" + queue + "/messages", `{"body":"x"}`},
	} {
		header := g.refused(t, queue, r.status, r.body, r.method, r.path, r.asked)
		if strings.HasPrefix(r.path, g.Cfqueues) {
			assert.Equal(t, "true", header.Get("X-Should-Retry"), r.path)
		}
	}
}

// refused sends a request and looks at how its answer begins.
func (g *gateway) refused(t *testing.T, what string, status int, body, method, url, asked string) http.Header {
	t.Helper()
	a, err := g.queen.Conn.JSON(t.Context(), method, url, asked)
	if assert.NoError(t, err, url) {
		assert.Equal(t, status, a.Status, "%s: %s %s", what, url, a)
		assert.True(t, strings.HasPrefix(string(a.Body), body), "%s: %s %s", what, url, a)
	}
	return a.Header
}

// serves makes sure that each protocol works, soon.
func (g *gateway) serves(t *testing.T) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		if err = g.queen.Configure(t.Context(), outageQueue, `{}`); err != nil {
			return false
		}
		if _, _, err = g.qr.Stats(t.Context(), outageQueue); err != nil {
			return false
		}
		_, err = g.cf.Metrics(t.Context(), outageQueue)
		return err == nil
	}, 20*time.Second, 20*time.Millisecond, "it does not work again")
	require.NoError(t, err)
}
