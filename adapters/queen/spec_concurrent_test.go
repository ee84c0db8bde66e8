package queen_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// pushAtOnce sends the same body n times at once and counts the statuses.
func (b *broker) pushAtOnce(t *testing.T, n int, body string) map[string]int {
	t.Helper()
	answers := make([]result, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { answers[i], _ = b.send(t.Context(), http.MethodPost, "/api/v1/push", body) })
	}
	wg.Wait()
	out := map[string]int{}
	for _, r := range answers {
		var items []pushedItem
		require.NoError(t, json.Unmarshal([]byte(r.body), &items), r.body)
		for _, it := range items {
			out[it.Status]++
		}
	}
	return out
}
