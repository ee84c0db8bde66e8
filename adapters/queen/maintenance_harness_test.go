package queen_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen"
	"github.com/leasehold/leasehold/adapters/queen/spool"
	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/core/coretest"
)

// desk is a broker with a meter, maintenance and a spool.
type desk struct {
	*broker
	meter        *queen.Meter
	maintenance  *queen.Maintenance
	spool        *spool.Spool
	spoolOptions spool.Options
}

// newDesk returns a desk over a store, which it closes.
func newDesk(t *testing.T, store core.Store) *desk {
	t.Helper()
	d := newDeskWith(t, store, coretest.New(coretest.Start), spool.Options{})
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	t.Cleanup(func() { d.end(t) })
	return d
}

// newDeskWith is newDesk over a store that others close, and that other desks may share.
func newDeskWith(t *testing.T, store core.Store, clock *coretest.Clock, o spool.Options) *desk {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	d := &desk{broker: &broker{local: clock, clock: clock, over: store}, spoolOptions: o}
	d.begin(t)
	return d
}

// begin starts the server.
func (d *desk) begin(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	var err error
	d.spool, err = spool.Open(d.spoolOptions)
	require.NoError(t, err)
	d.meter = queen.NewMeter(queen.MeterOptions{Clock: d.local, Gateway: d.spool.ID()})
	d.engine, err = core.New(ctx, d.over, core.Options{Clock: d.local, Observer: d.meter})
	require.NoError(t, err)
	require.NoError(t, d.meter.Start(ctx, d.engine))
	d.maintenance, err = queen.NewMaintenance(ctx, queen.MaintenanceOptions{Engine: d.engine, Clock: d.local, Spool: d.spool})
	require.NoError(t, err)
	d.server = httptest.NewServer(queen.New(d.engine, queen.Options{Meter: d.meter, Maintenance: d.maintenance}))
}

// end stops the server in order.
func (d *desk) end(t *testing.T) {
	t.Helper()
	d.server.Close()
	require.NoError(t, d.maintenance.Close())
	require.NoError(t, d.meter.Close(context.WithoutCancel(t.Context())))
	require.NoError(t, d.engine.Shutdown(context.WithoutCancel(t.Context())))
	require.NoError(t, d.spool.Close())
}

// get reads a JSON object.
func (d *desk) get(t *testing.T, path string) map[string]any {
	t.Helper()
	r := d.do(t, http.MethodGet, path, "")
	require.Equal(t, http.StatusOK, r.status, r.body)
	var out map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.body), &out), r.body)
	return out
}

// list reads a JSON array.
func (d *desk) list(t *testing.T, path string) []map[string]any {
	t.Helper()
	r := d.do(t, http.MethodGet, path, "")
	require.Equal(t, http.StatusOK, r.status, r.body)
	var out []map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.body), &out), r.body)
	return out
}

// at follows keys into an object; a number is an index of an array.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, key := range path {
		switch key := key.(type) {
		case string:
			object, ok := v.(map[string]any)
			require.True(t, ok, "%v is no object with %q", v, key)
			require.Contains(t, object, key)
			v = object[key]
		case int:
			array, ok := v.([]any)
			require.True(t, ok, "%v is no array", v)
			require.Greater(t, len(array), key)
			v = array[key]
		}
	}
	return v
}

// overStores runs a test over memory and SQLite.
func overStores(t *testing.T, run func(t *testing.T, d *desk)) {
	t.Helper()
	for name, open := range ruleStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, newDesk(t, open(t)))
		})
	}
}

// listMinutes asks for the stored minutes of the history.
var listMinutes = core.ListRecordsParams{Kind: "queen-minute", Limit: 10}
