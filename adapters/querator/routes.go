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
}

var (
	everyGeneration = []Generation{R1, R2, L1, L2}
	reserveFamily   = []Generation{R1, R2}
	leaseFamily     = []Generation{L1, L2}
)

// routes is the table of all RPCs. A path that is not in it, or not in the listener's generation,
// is answered 501 as an unknown method.
var routes = []route{
	{path: "/v1/queue.produce", in: everyGeneration, auto: dialectL2, handle: produce},
	{path: "/v1/queue.reserve", limit: limitClaim, in: reserveFamily, auto: dialectR2, handle: claim},
	{path: "/v1/queue.lease", limit: limitClaim, in: leaseFamily, auto: dialectL2, handle: claim},
	{path: "/v1/queue.complete", limit: limitComplete, in: everyGeneration, auto: dialectL2, handle: complete},
	// The reserve generations documented queue.defer and never served it.
	{path: "/v1/queue.defer", limit: limitComplete, in: reserveFamily, auto: dialectR2, handle: retry},
	{path: "/v1/queue.retry", limit: limitComplete, in: leaseFamily, auto: dialectL2, handle: retry},
	{path: "/v1/queue.stats", limit: limitStats, in: everyGeneration, auto: dialectL2, handle: queueStats},
	{path: "/v1/queues.create", limit: limitQueues, in: everyGeneration, auto: dialectL2, handle: createQueue},
	{path: "/v1/queues.info", limit: limitQueues, in: leaseFamily, auto: dialectL2, handle: queueInfo},
	{path: "/v1/queues.list", limit: limitQueues, in: everyGeneration, auto: dialectL2, handle: listQueues},
	{path: "/v1/queues.delete", limit: limitQueues, in: everyGeneration, auto: dialectL2, handle: deleteQueue},
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
	for i := range routes {
		rt := &routes[i]
		if s.o.Generation != Auto && !slices.Contains(rt.in, s.o.Generation) {
			continue
		}
		g.POST(rt.path, func(c *gin.Context) {
			httpapi.SetRoute(c.Request.Context(), rt.path)
			s.serve(c.Writer, c.Request, rt)
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
