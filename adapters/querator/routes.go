package querator

import (
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
)

// route is one RPC.
type route struct {
	path string
	// limit is the largest body in bytes; zero means the produce limit of the options.
	limit int64
	// in lists the generations that have the route; Auto has every route.
	in []Generation
	// auto is the dialect that the route implies on an Auto listener.
	auto   *dialect
	handle func(*call) (reply, error)
	// named marks a path of the 2024-09 document, in which a queue's name is called "name".
	named bool
}

// busy are the routes that carry items. They find out themselves when another gateway has changed something that they would refuse a request
// for; all others show or change what it may have changed a moment ago, and so look first.
var busy = []string{"/v1/queue.produce", "/v1/queue.reserve", "/v1/queue.lease", "/v1/queue.complete", "/v1/queue.defer", "/v1/queue.retry"}

func (rt *route) looksFirst() bool { return !slices.Contains(busy, rt.path) }

var (
	everyGeneration = []Generation{R1, R2, L1, L2}
	reserveFamily   = []Generation{R1, R2}
	leaseFamily     = []Generation{L1, L2}
	newest          = []Generation{L2}
)

// routes is the table of all RPCs. A path that is not in it, or not in the listener's generation,
// is answered 501 as an unknown method; so are users, roles and role bindings, which nobody needs
// yet.
var routes = []route{
	{path: "/v1/queue.produce", in: everyGeneration, auto: dialectL2, handle: produce},
	{path: "/v1/queue.reserve", limit: limitClaim, in: reserveFamily, auto: dialectR2, handle: claim},
	{path: "/v1/queue.lease", limit: limitClaim, in: leaseFamily, auto: dialectL2, handle: claim},
	{path: "/v1/queue.complete", limit: limitComplete, in: everyGeneration, auto: dialectL2, handle: complete},
	// The reserve generations documented queue.defer and never served it.
	{path: "/v1/queue.defer", limit: limitComplete, in: reserveFamily, auto: dialectR2, handle: retry},
	{path: "/v1/queue.retry", limit: limitComplete, in: leaseFamily, auto: dialectL2, handle: retry},
	{path: "/v1/queue.stats", limit: limitStats, in: everyGeneration, auto: dialectL2, handle: queueStats},
	{path: "/v1/queue.clear", limit: limitStats, in: everyGeneration, auto: dialectL2, handle: clearQueue},
	{path: "/v1/queue.reload", limit: limitStats, in: newest, auto: dialectL2, handle: reloadQueue},
	{path: "/v1/queues.create", limit: limitQueues, in: everyGeneration, auto: dialectL2, handle: createQueue},
	{path: "/v1/queues.info", limit: limitQueues, in: leaseFamily, auto: dialectL2, handle: queueInfo},
	{path: "/v1/queues.list", limit: limitQueues, in: everyGeneration, auto: dialectL2, handle: listQueues},
	{path: "/v1/queues.update", limit: limitUpdate, in: everyGeneration, auto: dialectL2, handle: updateQueue},
	{path: "/v1/queues.delete", limit: limitQueues, in: everyGeneration, auto: dialectL2, handle: deleteQueue},
	{path: "/v1/storage/items.list", limit: limitQueues, in: everyGeneration, auto: dialectL2, handle: listItems},
	{path: "/v1/storage/items.import", limit: limitImport, in: everyGeneration, auto: dialectL2, handle: importItems},
	{path: "/v1/storage/items.delete", limit: limitQueues, in: everyGeneration, auto: dialectL2, handle: deleteItems},
	{path: "/v1/storage/scheduled.list", limit: limitQueues, in: leaseFamily, auto: dialectL2, handle: listScheduled},
	{path: "/v1/namespaces.create", limit: limitQueues, in: newest, auto: dialectL2, handle: createNamespace},
	{path: "/v1/namespaces.update", limit: limitQueues, in: newest, auto: dialectL2, handle: updateNamespace},
	{path: "/v1/namespaces.list", limit: limitQueues, in: newest, auto: dialectL2, handle: listNamespaces},
	{path: "/v1/namespaces.delete", limit: limitQueues, in: newest, auto: dialectL2, handle: deleteNamespace},
	{path: pathFirstKey, limit: limitQueues, in: newest, auto: dialectL2, handle: createKey},
	{path: "/v1/apikeys.list", limit: limitQueues, in: newest, auto: dialectL2, handle: listKeys},
	{path: "/v1/apikeys.delete", limit: limitQueues, in: newest, auto: dialectL2, handle: deleteKey},
}

// aliases are paths that published documents print and no server had. Only an Auto listener has
// them: on the others they are unknown, as on the originals.
var aliases = []route{
	{path: "/v1/queue.create", limit: limitQueues, auto: dialectR1, handle: createQueue, named: true},
	{path: "/v1/queue.update", limit: limitUpdate, auto: dialectR1, handle: updateQueue, named: true},
	{path: "/v1/queue.list", limit: limitQueues, auto: dialectR1, handle: listQueues, named: true},
	{path: "/v1/queue.info", limit: limitQueues, auto: dialectR1, handle: queueInfo, named: true},
	{path: "/v1/queue.inspect", limit: limitQueues, auto: dialectR1, handle: queueInfo, named: true},
	{path: "/v1/storage/queue.list", limit: limitQueues, auto: dialectR1, handle: listItems},
	{path: "/v1/storage/queue.add", limit: limitImport, auto: dialectR1, handle: importItems},
	{path: "/v1/storage/queue.delete", limit: limitQueues, auto: dialectR1, handle: deleteItems},
	{path: "/v1/storage.items-list", limit: limitQueues, auto: dialectL2, handle: listItems},
	{path: "/v1/storage.items-import", limit: limitImport, auto: dialectL2, handle: importItems},
	{path: "/v1/storage.items-delete", limit: limitQueues, auto: dialectL2, handle: deleteItems},
}

// router builds the gin engine. gin's own redirects and method handling are off: paths are
// matched exactly, and every answer is worded here. No path has a parameter, so paths are matched
// decoded, as the originals do.
func (s *server) router() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	g := gin.New()
	g.RedirectTrailingSlash = false
	g.RedirectFixedPath = false
	g.HandleMethodNotAllowed = false
	for _, rt := range slices.Concat(routes, aliases) {
		if s.o.Generation != Auto && !slices.Contains(rt.in, s.o.Generation) {
			continue
		}
		g.POST(rt.path, func(c *gin.Context) {
			httpapi.SetRoute(c.Request.Context(), rt.path)
			s.serve(c.Writer, c.Request, &rt)
		})
	}
	if s.hasHealth() {
		g.GET("/health", func(c *gin.Context) {
			httpapi.SetRoute(c.Request.Context(), "/health")
			s.health(c.Writer, c.Request)
		})
	}
	if s.o.Metrics != nil {
		g.GET("/metrics", func(c *gin.Context) {
			httpapi.SetRoute(c.Request.Context(), "/metrics")
			s.o.Metrics.ServeHTTP(c.Writer, c.Request)
		})
	}
	g.NoRoute(func(c *gin.Context) { s.unknown(c.Writer, c.Request) })
	return g
}
