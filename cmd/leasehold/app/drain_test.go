package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTerminationUnderLoadLosesNothing stops a server that is being pushed to:
// whatever it acknowledged is there afterwards, and it ends in order.
func TestTerminationUnderLoadLosesNothing(t *testing.T) {
	dir := t.TempDir()
	c := spawn(t, dir, nil, everywhere("data")...)
	var (
		pushers sync.WaitGroup
		sent    atomic.Int64
		mu      sync.Mutex
		kept    = map[string]bool{}
	)
	enough := make(chan struct{})
	for range 8 {
		pushers.Go(func() {
			for {
				n := sent.Add(1)
				if n == 400 {
					close(enough)
				}
				id := fmt.Sprintf("t%d", n)
				a := send(c.url("queen", "/api/v1/push"), fmt.Sprintf(`{"items":[{"queue":"q","payload":1,"transactionId":%q}]}`, id))
				if a.err != nil || a.status != http.StatusCreated {
					return // the server is going, and says so or has gone
				}
				mu.Lock()
				kept[id] = true
				mu.Unlock()
			}
		})
	}
	<-enough
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	pushers.Wait()
	require.NoError(t, c.wait())
	assert.NotContains(t, c.logged(), "shutdown step failed")
	assert.GreaterOrEqual(t, len(kept), 390)

	again := spawn(t, dir, nil, everywhere("data")...)
	for _, id := range popAll(t, again) {
		delete(kept, id)
	}
	assert.Empty(t, kept, "acknowledged but gone")
}

// popAll settles everything in queue q and returns the transaction ids.
func popAll(t *testing.T, c *child) []string {
	t.Helper()
	var ids []string
	for {
		a := send(c.url("queen", popPath+"?batch=1000&autoAck=true"), "")
		require.NoError(t, a.err)
		if a.status == http.StatusNoContent {
			return ids
		}
		require.Equal(t, http.StatusOK, a.status, a.body)
		var got struct {
			Messages []struct {
				TransactionID string `json:"transactionId"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(a.body), &got))
		for _, m := range got.Messages {
			ids = append(ids, m.TransactionID)
		}
	}
}
