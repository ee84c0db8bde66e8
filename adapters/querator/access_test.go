package querator_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/querator"
)

const rootKey = "a key from the configuration"

// as sends a JSON body with a key; "" sends none.
func (f *fixture) as(key, path, body string) answer {
	if key == "" {
		return f.post(path, body)
	}
	return f.do(http.MethodPost, path, body, "Authorization", "Bearer "+key)
}

// newKey makes a key with the root key.
func (f *fixture) newKey(body string) (id, key string) {
	f.t.Helper()
	a := f.as(rootKey, "/v1/apikeys.create", body)
	require.Equal(f.t, 200, a.status, a.body)
	var m struct{ ID, Key, Prefix string }
	require.NoError(f.t, json.Unmarshal([]byte(a.body), &m))
	require.Equal(f.t, m.Key[:len(m.Prefix)], m.Prefix)
	return m.ID, m.Key
}

func TestNamespaces(t *testing.T) {
	f := newFixture(t, querator.Options{Generation: querator.L2})
	f.ok("/v1/namespaces.create", `{"name":"b","description":"second","api_key_tag":"bee"}`)
	f.ok("/v1/namespaces.create", `{"name":"a"}`)
	for name, tt := range map[string]struct {
		path, body string
		want       outcome
	}{
		"exists":             {"/v1/namespaces.create", `{"name":"a"}`, bad("namespace already exists; 'a' already exists")},
		"reserved":           {"/v1/namespaces.create", `{"name":"_x"}`, bad("namespace name is reserved; '_x' names starting with '_' are reserved")},
		"the default one":    {"/v1/namespaces.delete", `{"name":"_system"}`, bad("namespace name is reserved; '_system' names starting with '_' are reserved")},
		"blank":              {"/v1/namespaces.create", `{}`, bad("namespace name is invalid; cannot be empty")},
		"tilde":              {"/v1/namespaces.create", `{"name":"a~b"}`, bad("namespace name is invalid; 'a~b' cannot contain '~' character")},
		"colon":              {"/v1/namespaces.create", `{"name":"a:b"}`, bad("namespace name is invalid; 'a:b' cannot contain ':' character")},
		"whitespace":         {"/v1/namespaces.create", `{"name":"a b"}`, bad("namespace name is invalid; 'a b' cannot contain whitespace")},
		"too long":           {"/v1/namespaces.create", expand(`{"name":"<long 300>"}`), bad("namespace name is invalid; cannot be greater than '256' characters")},
		"update of unknown":  {"/v1/namespaces.update", `{"name":"c"}`, outcome{453, "namespace does not exist; 'c' was not found"}},
		"delete of unknown":  {"/v1/namespaces.delete", `{"name":"c"}`, outcome{453, "namespace does not exist; 'c' was not found"}},
		"a negative limit":   {"/v1/namespaces.list", `{"limit":-1}`, bad("limit is invalid; limit cannot be negative")},
		"users are not kept": {"/v1/users.create", `{"username":"u"}`, unserved("/v1/users.create")},
		"nor roles":          {"/v1/roles.list", `{}`, unserved("/v1/roles.list")},
		"nor bindings":       {"/v1/rolebindings.delete", `{}`, unserved("/v1/rolebindings.delete")},
	} {
		a := f.post(tt.path, tt.body)
		require.Equal(t, tt.want.code, a.status, name)
		require.Equal(t, tt.want.text, a.message(t), name)
	}
	made := f.in(0)
	f.clock.Advance(time.Hour)
	f.ok("/v1/namespaces.update", `{"name":"a","description":"first"}`)
	exact(t, `{"items":[{"name":"a","description":"first","created_at":"`+made+`"},{"name":"b","description":"second","created_at":"`+made+`","api_key_tag":"bee"}]}`,
		f.ok("/v1/namespaces.list", `{}`).body)
	exact(t, `{"items":[{"name":"b","description":"second","created_at":"`+made+`","api_key_tag":"bee"}]}`, f.ok("/v1/namespaces.list", `{"pivot":"b"}`).body)
	exact(t, `{"items":[{"name":"a","description":"first","created_at":"`+made+`"}]}`, f.ok("/v1/namespaces.list", `{"limit":1}`).body)

	f.create("in-a", `,"namespace":"a"`)
	f.create("in-system", `,"namespace":"_system"`)
	require.Contains(t, f.ok("/v1/queues.list", `{"namespace":"a"}`).body, `"queue_name":"in-a"`)
	require.NotContains(t, f.ok("/v1/queues.list", `{"namespace":"a"}`).body, "in-system")
	require.Contains(t, f.ok("/v1/queues.list", `{}`).body, `"namespace":"_system"`)
	require.NotContains(t, f.ok("/v1/queues.list", `{}`).body, "in-a")
	require.Equal(t, "namespace has queues; 'a' has queues, delete queues first", f.post("/v1/namespaces.delete", `{"name":"a"}`).message(t))
	f.ok("/v1/queues.delete", `{"queue_name":"in-a"}`)
	f.ok("/v1/namespaces.delete", `{"name":"a"}`)
	require.Equal(t, 453, f.post("/v1/queues.create", `{"queue_name":"x","namespace":"a"}`).status)
	f.ok("/v1/namespaces.delete", `{"name":"b"}`) // a server that was there before may be asked again
}

func TestKeysAreRequiredOnlyWhereTheyAreSwitchedOn(t *testing.T) {
	f := newFixture(t, querator.Options{Generation: querator.L2})
	f.create("q")
	f.ok("/v1/apikeys.create", `{"name":"k"}`)
	require.Equal(t, 200, f.as("anything", "/v1/queues.list", `{}`).status)
	require.Equal(t, 200, f.post("/v1/queues.list", `{}`).status)
	basic := f.do(http.MethodPost, "/v1/queues.list", `{}`, "Authorization", "Basic x")
	require.Equal(t, 401, basic.status)
	require.Equal(t, "invalid authorization header format", basic.message(t))
}

func TestKeys(t *testing.T) {
	f := newFixture(t, querator.Options{RequireKey: true, RootKey: rootKey})
	require.Equal(t, 200, f.as(rootKey, "/v1/namespaces.create", `{"name":"a","api_key_tag":"tag"}`).status)
	require.Equal(t, 200, f.as(rootKey, "/v1/queues.create", `{"queue_name":"qa","lease_timeout":"1m","expire_timeout":"1h","requested_partitions":1,"namespace":"a"}`).status)
	require.Equal(t, 200, f.as(rootKey, "/v1/queues.create", `{"queue_name":"qs","lease_timeout":"1m","expire_timeout":"1h","requested_partitions":1}`).status)
	idAll, all := f.newKey(`{"name":"all","user_id":"u1"}`)
	_, scoped := f.newKey(`{"name":"scoped","namespace_scope":"a","user_id":"u2"}`)
	_, short := f.newKey(`{"name":"short","expires_at":"` + f.in(time.Hour) + `","key_tag":"t1"}`)
	require.Regexp(t, `^qtr-live-[0-9A-Za-z]{43}$`, all)
	require.Regexp(t, `^qtr-tag-[0-9A-Za-z]{43}$`, scoped)
	require.Regexp(t, `^qtr-t1-[0-9A-Za-z]{43}$`, short)
	list := f.as(rootKey, "/v1/apikeys.list", `{}`)
	require.Len(t, list.items(t), 3)
	for _, key := range []string{all, scoped, short} {
		require.NotContains(t, list.body, key, "a key is shown once")
	}
	require.Len(t, f.as(all, "/v1/apikeys.list", `{"user_id":"u1"}`).items(t), 1)

	const stats, produce = "/v1/queue.stats", "/v1/queue.produce"
	item := func(q string) string { return `{"queue_name":"` + q + `","request_timeout":"1m","items":[{}]}` }
	for name, tt := range map[string]struct {
		key, path, body string
		want            outcome
	}{
		"no key":                            {"", stats, `{"queue_name":"qs"}`, outcome{401, "authentication required"}},
		"no key, unknown route":             {"", "/v1/nope", `{}`, outcome{401, "authentication required"}},
		"no key, body too large":            {"", stats, expand(`<long 600>`), outcome{401, "authentication required"}},
		"no key for a first key":            {"", "/v1/apikeys.create", `{"name":"x"}`, outcome{401, "authentication required"}},
		"not a key":                         {"nonsense", stats, `{}`, outcome{401, "api key is invalid"}},
		"nobody's key":                      {"qtr-live-nonsense", stats, `{}`, outcome{401, "api key does not exist"}},
		"any queue":                         {all, stats, `{"queue_name":"qa"}`, ok},
		"produce anywhere":                  {all, produce, item("qs"), ok},
		"its namespace":                     {scoped, produce, item("qa"), ok},
		"another namespace":                 {scoped, produce, item("qs"), outcome{403, "access denied"}},
		"another namespace, bad partition":  {scoped, "/v1/queue.complete", `{"queue_name":"qs","partition":9}`, outcome{403, "access denied"}},
		"a queue that is not there":         {scoped, stats, `{"queue_name":"nope"}`, bad(textNoQueue)},
		"claim elsewhere":                   {scoped, "/v1/queue.reserve", leaseBody("qs", "c", 1, "1m"), outcome{403, "access denied"}},
		"retry elsewhere":                   {scoped, "/v1/queue.retry", `{"queue_name":"qs"}`, outcome{403, "access denied"}},
		"clear elsewhere":                   {scoped, "/v1/queue.clear", `{"queue_name":"qs"}`, outcome{403, "access denied"}},
		"info elsewhere":                    {scoped, "/v1/queues.info", `{"queue_name":"qs"}`, outcome{403, "access denied"}},
		"update elsewhere":                  {scoped, "/v1/queues.update", `{"queue_name":"qs"}`, outcome{403, "access denied"}},
		"delete elsewhere":                  {scoped, "/v1/queues.delete", `{"queue_name":"qs"}`, outcome{403, "access denied"}},
		"storage elsewhere":                 {scoped, itemsList, `{"queue_name":"qs"}`, outcome{403, "access denied"}},
		"scheduled elsewhere":               {scoped, scheduledList, `{"queue_name":"qs"}`, outcome{403, "access denied"}},
		"import elsewhere":                  {scoped, "/v1/storage/items.import", `{"queue_name":"qs"}`, outcome{403, "access denied"}},
		"storage deletion elsewhere":        {scoped, "/v1/storage/items.delete", `{"queue_name":"qs"}`, outcome{403, "access denied"}},
		"make elsewhere":                    {scoped, "/v1/queues.create", `{"queue_name":"new","lease_timeout":"1m","expire_timeout":"1h","requested_partitions":1}`, outcome{403, "access denied"}},
		"make with a dead queue elsewhere":  {scoped, "/v1/queues.create", `{"queue_name":"new","lease_timeout":"1m","expire_timeout":"1h","requested_partitions":1,"namespace":"a","dead_queue":"qs"}`, outcome{403, "access denied"}},
		"list elsewhere":                    {scoped, "/v1/queues.list", `{}`, outcome{403, "access denied"}},
		"list its own":                      {scoped, "/v1/queues.list", `{"namespace":"a"}`, ok},
		"alias elsewhere":                   {scoped, "/v1/queue.info", `{"name":"qs"}`, outcome{403, "access denied"}},
		"keys are everybody's":              {scoped, "/v1/apikeys.list", `{}`, outcome{403, "access denied"}},
		"nor can it make one":               {scoped, "/v1/apikeys.create", `{"name":"x"}`, outcome{403, "access denied"}},
		"nor delete one":                    {scoped, "/v1/apikeys.delete", `{"id":"` + idAll + `"}`, outcome{403, "access denied"}},
		"namespaces are everybody's":        {scoped, "/v1/namespaces.create", `{"name":"c"}`, outcome{403, "access denied"}},
		"nor can it delete its own":         {scoped, "/v1/namespaces.delete", `{"name":"a"}`, outcome{403, "access denied"}},
		"before its end":                    {short, stats, `{"queue_name":"qs"}`, ok},
		"a bad tag":                         {all, "/v1/apikeys.create", `{"name":"x","key_tag":"A"}`, bad("key_tag is invalid; must be lowercase alphanumeric only")},
		"a long tag":                        {all, "/v1/apikeys.create", `{"name":"x","key_tag":"aaaaaaaaaaaaaaaaa"}`, bad("key_tag is invalid; cannot be greater than 16 characters")},
		"a scope that is not there":         {all, "/v1/apikeys.create", `{"name":"x","namespace_scope":"nope"}`, outcome{453, "namespace does not exist; 'nope' was not found"}},
		"no name":                           {all, "/v1/apikeys.create", `{}`, bad("name is invalid; cannot be empty")},
		"a long name":                       {all, "/v1/apikeys.create", expand(`{"name":"<long 300>"}`), bad("name is invalid; cannot be greater than '128' characters")},
		"deletion of a key that is not one": {all, "/v1/apikeys.delete", `{"id":"x"}`, outcome{453, "api key does not exist; 'x' was not found"}},
	} {
		a := f.as(tt.key, tt.path, tt.body)
		require.Equal(t, tt.want.code, a.status, "%s: %s", name, a.body)
		if tt.want.text != "" {
			require.Equal(t, tt.want.text, a.message(t), name)
		}
	}
	f.clock.Advance(time.Hour)
	require.Equal(t, "api key has expired", f.as(short, stats, `{"queue_name":"qs"}`).message(t))
	require.Equal(t, 200, f.as(rootKey, "/v1/apikeys.delete", `{"id":"`+idAll+`"}`).status)
	gone := f.as(all, stats, `{"queue_name":"qs"}`)
	require.Equal(t, 401, gone.status)
	require.Equal(t, "api key does not exist", gone.message(t), "at once")
	require.Equal(t, 200, f.do(http.MethodGet, "/health", "").status)
}

func TestTheFirstKeyNeedsNone(t *testing.T) {
	f := newFixture(t, querator.Options{RequireKey: true})
	require.Equal(t, 401, f.post("/v1/queues.list", `{}`).status)
	require.Equal(t, 401, f.post("/v1/apikeys.list", `{}`).status)
	a := f.ok("/v1/apikeys.create", `{"name":"first"}`)
	var m struct{ Key string }
	require.NoError(t, json.Unmarshal([]byte(a.body), &m))
	require.Equal(t, 401, f.post("/v1/apikeys.create", `{"name":"second"}`).status)
	f.restart()
	require.Equal(t, 200, f.as(m.Key, "/v1/apikeys.create", `{"name":"second"}`).status)
}

func TestOlderGenerationsKnowNoAuthorizationUntilKeysAreRequired(t *testing.T) {
	f := newFixture(t, querator.Options{Generation: querator.L1})
	require.Equal(t, 200, f.do(http.MethodPost, "/v1/queues.list", `{}`, "Authorization", "Basic x").status)
	require.Equal(t, 501, f.post("/v1/namespaces.list", `{}`).status)
	f = newFixture(t, querator.Options{Generation: querator.R2, RequireKey: true, RootKey: rootKey})
	require.Equal(t, 401, f.post("/v1/queues.list", `{}`).status)
	require.Equal(t, 200, f.as(rootKey, "/v1/queues.list", `{}`).status)
}
