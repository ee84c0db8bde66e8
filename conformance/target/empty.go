package target

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// account is the account of the harness's requests; any will do.
const account = "/client/v4/accounts/023e105f4ecef8ad9ca31a8372d0c353/queues"

// empty deletes every queue: by Cloudflare's protocol where the target speaks
// it, which names queues by id and so can delete what any protocol has made.
func (r *Remote) empty(tb testing.TB) {
	tb.Helper()
	all := byFamily(list(TargetVariable + Cfqueues))[""]
	switch {
	case len(all) > 0:
		r.emptyCfqueues(tb, all[0])
	case r.protocol == Queen:
		r.emptyQueen(tb)
	case r.protocol == Querator:
		r.emptyQuerator(tb)
	}
}

// forget deletes what outlives queues, where the control listener can: the traces and the queries of stream processors that an earlier test
// of Queen has left.
func (r *Remote) forget(tb testing.TB) {
	tb.Helper()
	if r.protocol == Queen && len(r.controls) > 0 {
		r.call(tb, http.MethodPost, r.controls[0]+"/forget", "{}")
	}
}

func (r *Remote) emptyQueen(tb testing.TB) {
	tb.Helper()
	base := r.pick("")
	var got struct{ Queues []struct{ Name string } }
	r.decode(tb, http.MethodGet, base+"/api/v1/resources/queues", "", &got)
	for _, q := range got.Queues {
		r.call(tb, http.MethodDelete, base+"/api/v1/resources/queues/"+url.PathEscape(q.Name), "")
	}
}

func (r *Remote) emptyQuerator(tb testing.TB) {
	tb.Helper()
	family := r.family(tb, "")
	for {
		base := r.pick(family)
		var got struct {
			Items []struct {
				Name string `json:"queue_name"`
			}
		}
		r.decode(tb, http.MethodPost, base+"/v1/queues.list", `{"limit":1000}`, &got)
		if len(got.Items) == 0 {
			return
		}
		for _, q := range got.Items {
			name, err := json.Marshal(q.Name)
			require.NoError(tb, err)
			r.call(tb, http.MethodPost, base+"/v1/queues.delete", `{"queue_name":`+string(name)+`}`)
		}
	}
}

func (r *Remote) emptyCfqueues(tb testing.TB, base string) {
	tb.Helper()
	base += account
	for {
		var got struct {
			Result []struct {
				ID string `json:"queue_id"`
			}
		}
		r.decode(tb, http.MethodGet, base, "", &got)
		if len(got.Result) == 0 {
			return
		}
		gone := 0
		var last []byte
		for _, q := range got.Result {
			// A queue that is another one's dead letter queue goes after that one.
			status, text := r.ask(tb, http.MethodDelete, base+"/"+q.ID, "")
			if last = text; status == http.StatusOK || status == http.StatusNotFound {
				gone++
			}
		}
		require.Positive(tb, gone, "no queue can be deleted: %s", last)
	}
}

func (r *Remote) decode(tb testing.TB, method, url, body string, into any) {
	tb.Helper()
	text := r.call(tb, method, url, body)
	require.NoError(tb, json.Unmarshal(text, into), "%s", text)
}

// PauseDelivery has a queue refuse every claim, by Cloudflare's protocol.
func (r *Remote) PauseDelivery(tb testing.TB, queue string) {
	tb.Helper()
	all := byFamily(list(TargetVariable + Cfqueues))[""]
	if len(all) == 0 {
		tb.Skip("needs a server that speaks Cloudflare's protocol too")
	}
	r.call(tb, http.MethodPatch, all[0]+account+"/"+url.PathEscape(queue), `{"settings":{"delivery_paused":true}}`)
}
