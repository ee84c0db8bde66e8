package queen

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/adapters/internal/httpapi"
	"github.com/leasehold/leasehold/core"
)

// route is one row of the table. The level is what it asks of a token, where tokens are asked for. The handler
// answers the request itself or returns an error, which is answered by the table in errors.go.
type route struct {
	method, path string
	level        level
	handle       func(*server, *gin.Context) error
}

// routes are the protocol's routes that this build has (protocol §2). Any
// other path or method is "no such route".
var routes = []route{
	{http.MethodPost, "/api/v1/push", levelWriteOnly, (*server).push},
	{http.MethodGet, "/api/v1/pop", levelReadWrite, (*server).popDiscovery},
	{http.MethodGet, "/api/v1/pop/queue/:queue", levelReadWrite, (*server).popQueue},
	{http.MethodGet, "/api/v1/pop/queue/:queue/partition/:partition", levelReadWrite, (*server).popPartition},
	// The empty name is legal, and a router does not take it for a parameter.
	{http.MethodGet, "/api/v1/pop/queue/", levelReadWrite, (*server).popQueue},
	{http.MethodGet, "/api/v1/pop/queue//partition/:partition", levelReadWrite, (*server).popPartition},
	{http.MethodPost, "/api/v1/ack", levelReadWrite, (*server).ack},
	{http.MethodPost, "/api/v1/ack/batch", levelReadWrite, (*server).ackBatch},
	{http.MethodPost, "/api/v1/lease/:leaseId/extend", levelReadWrite, (*server).extend},
	{http.MethodPost, "/api/v1/transaction", levelReadWrite, (*server).transaction},
	{http.MethodPost, "/api/v1/configure", levelReadWrite, (*server).configure},
	{http.MethodDelete, "/api/v1/resources/queues/:queue", levelAdmin, (*server).deleteQueue},
	{http.MethodDelete, "/api/v1/resources/queues/", levelAdmin, (*server).deleteQueue},
	{http.MethodGet, "/api/v1/resources/queues", levelReadOnly, (*server).listQueues},
	{http.MethodGet, "/api/v1/resources/queues/", levelReadOnly, (*server).queueDetail},
	{http.MethodGet, "/api/v1/resources/queues/:queue", levelReadOnly, (*server).queueDetail},
	{http.MethodGet, "/api/v1/dlq", levelReadOnly, (*server).listDeadLetters},
	{http.MethodDelete, "/api/v1/dlq", levelAdmin, (*server).purgeDeadLetters},
	{http.MethodPost, "/api/v1/dlq/:id/replay", levelReadWrite, (*server).replay},
	{http.MethodPost, "/api/v1/messages/:partitionId/:transactionId/retry", levelReadWrite, (*server).retry},
	{http.MethodDelete, "/api/v1/messages/:partitionId/:transactionId", levelReadWrite, (*server).deleteMessage},
	{http.MethodDelete, "/api/v1/consumer-groups/:group", levelAdmin, (*server).deleteGroup},
	{http.MethodDelete, "/api/v1/consumer-groups/:group/queues/:queue", levelAdmin, (*server).deleteQueueGroup},
	{http.MethodDelete, "/api/v1/consumer-groups/:group/queues/", levelAdmin, (*server).deleteQueueGroup},
	{http.MethodPost, "/api/v1/consumer-groups/:group/subscription", levelReadWrite, (*server).subscription},
	{http.MethodPost, "/api/v1/consumer-groups/:group/queues/:queue/seek", levelReadWrite, (*server).seekQueue},
	{http.MethodPost, "/api/v1/consumer-groups/:group/queues//seek", levelReadWrite, (*server).seekQueue},
	{http.MethodPost, "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek", levelReadWrite, (*server).seekPartition},
	{http.MethodPost, "/api/v1/consumer-groups/:group/queues//partitions/:partition/seek", levelReadWrite, (*server).seekPartition},
	{http.MethodPost, "/api/v1/traces", levelReadWrite, (*server).addTrace},
	{http.MethodGet, "/api/v1/traces/names", levelReadOnly, (*server).traceNames},
	{http.MethodGet, "/api/v1/traces/by-name/:traceName", levelReadOnly, (*server).namedTraces},
	{http.MethodGet, "/api/v1/traces/:partitionId/:transactionId", levelReadOnly, (*server).messageTraces},
	{http.MethodPost, "/streams/v1/queries", levelReadWrite, (*server).registerStream},
	{http.MethodPost, "/streams/v1/state/get", levelReadOnly, (*server).streamState},
	{http.MethodPost, "/streams/v1/cycle", levelReadWrite, (*server).cycle},
	{http.MethodGet, "/health", levelReadOnly, (*server).health},
}

// busy are the beginnings of the routes that carry messages. They find out themselves when another gateway has changed something that they
// would refuse a request for; all others show or change what it may have changed a moment ago, and so look first.
var busy = []string{
	"/api/v1/push", "/api/v1/pop", "/api/v1/ack", "/api/v1/lease/", "/api/v1/transaction", "/streams/v1/state", "/streams/v1/cycle", "/health",
}

func (r *route) looksFirst() bool {
	return r.level != levelPublic && !slices.ContainsFunc(busy, func(begin string) bool { return strings.HasPrefix(r.path, begin) })
}

// allRoutes is the whole table.
func allRoutes() []route { return slices.Concat(routes, viewRoutes) }

// router builds the gin engine. Nothing of gin's own answers is left on: each
// would be another protocol's words.
func (s *server) router() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	g := gin.New()
	g.RedirectTrailingSlash = false
	g.RedirectFixedPath = false
	g.HandleMethodNotAllowed = false
	g.UseRawPath = false // routeEscaped puts the escaped path where the router looks
	g.NoRoute(func(c *gin.Context) {
		if s.authorize(c, unlistedLevel(c.Request.URL.Path)) {
			writeNoRoute(c.Writer)
		}
	})
	for _, r := range allRoutes() {
		g.Handle(r.method, r.path, s.handler(r))
	}
	return routeEscaped(g)
}

// handler runs one row of the table and answers the error that it returns.
func (s *server) handler(r route) gin.HandlerFunc {
	return func(c *gin.Context) {
		httpapi.SetRoute(c.Request.Context(), r.path)
		s.o.Meter.request()
		if !s.authorize(c, r.level) {
			return
		}
		if r.looksFirst() {
			_ = s.engine.Refresh(c.Request.Context()) // where the store is away, the handler meets that too
		}
		err := r.handle(s, c)
		switch {
		case err == nil:
		case errors.Is(err, httpapi.ErrUnreadable):
			s.fail(c, r.path, err) // a client that ended its body early may still read
		case core.CodeOf(err) == core.CodeCanceled || c.Request.Context().Err() != nil:
			// Nobody is left to answer, and returning would send a 200.
			panic(http.ErrAbortHandler)
		case core.CodeOf(err) == core.CodeUnimplemented:
			writeNoRoute(c.Writer)
		default:
			s.fail(c, r.path, err)
		}
	}
}

// fail answers an error and logs it when the server is at fault.
func (s *server) fail(c *gin.Context, route string, err error) {
	answer := replyTo(err)
	if answer.status >= http.StatusInternalServerError {
		s.logger.ErrorContext(c.Request.Context(), "request failed",
			"route", route, "code", core.CodeOf(err).String(), "error", err.Error())
	}
	writeError(c.Writer, answer)
}
