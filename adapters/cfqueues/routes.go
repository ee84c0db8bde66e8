package cfqueues

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// route is one method and path of the protocol.
type route struct {
	method, pattern string
	handle          func(*server, *gin.Context) *apiError
}

const (
	pathQueues    = "/accounts/:account/queues"
	pathQueue     = pathQueues + "/:queue"
	pathConsumers = pathQueue + "/consumers"
	pathConsumer  = pathConsumers + "/:consumer"
	pathMessages  = pathQueue + "/messages"
)

// routes are what this server has of the protocol. Everything else gets the
// protocol's own "no such route". One server has one account: with authentication
// off, any account id is taken.
var routes = []route{
	{http.MethodGet, pathQueues, (*server).listQueues},
	{http.MethodPost, pathQueues, (*server).createQueue},
	{http.MethodGet, pathQueue, (*server).getQueue},
	{http.MethodPut, pathQueue, (*server).replaceQueue},
	{http.MethodPatch, pathQueue, (*server).mergeQueue},
	{http.MethodDelete, pathQueue, (*server).deleteQueue},
	{http.MethodGet, pathConsumers, (*server).listConsumers},
	{http.MethodPost, pathConsumers, (*server).createConsumer},
	{http.MethodGet, pathConsumer, (*server).getConsumer},
	{http.MethodDelete, pathConsumer, (*server).deleteConsumer},
	{http.MethodPost, pathMessages, (*server).pushMessage},
	{http.MethodPost, pathMessages + "/batch", (*server).pushBatch},
	{http.MethodPost, pathMessages + "/pull", (*server).pull},
	{http.MethodPost, pathMessages + "/ack", (*server).ack},
	{http.MethodPost, pathQueue + "/purge", (*server).startPurge},
	{http.MethodGet, pathQueue + "/purge", (*server).purgeStatus},
	{http.MethodGet, pathQueue + "/metrics", (*server).getMetrics},
}
