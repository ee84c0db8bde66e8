package cfqueues

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

// route is one method and path of the protocol, and what a token needs for it.
type route struct {
	method, pattern string
	needs           need
	handle          func(*server, *gin.Context) *apiError
}

// busy are the ends of the routes that carry messages. They find out themselves when another gateway has changed something that they would
// refuse a request for; all others show or change what it may have changed a moment ago, and so look first.
var busy = []string{"/messages", "/messages/batch", "/pull", "/ack", "/extend"}

func (r *route) looksFirst() bool {
	return strings.HasPrefix(r.pattern, pathQueues) && !slices.ContainsFunc(busy, func(end string) bool { return strings.HasSuffix(r.pattern, end) })
}

const (
	pathQueues        = "/accounts/:account/queues"
	pathQueue         = pathQueues + "/:queue"
	pathConsumers     = pathQueue + "/consumers"
	pathConsumer      = pathConsumers + "/:consumer"
	pathMessages      = pathQueue + "/messages"
	pathSubscriptions = "/accounts/:account/event_subscriptions/subscriptions"
	pathSubscription  = pathSubscriptions + "/:subscription"
)

// routes are what this server has of the protocol. Everything else gets the
// protocol's own "no such route". One server has one account: with authentication
// off, any account id is taken.
var routes = []route{
	{http.MethodGet, pathQueues, needRead, (*server).listQueues},
	{http.MethodPost, pathQueues, needWrite, (*server).createQueue},
	{http.MethodGet, pathQueue, needRead, (*server).getQueue},
	{http.MethodPut, pathQueue, needWrite, (*server).replaceQueue},
	{http.MethodPatch, pathQueue, needWrite, (*server).mergeQueue},
	{http.MethodDelete, pathQueue, needWrite, (*server).deleteQueue},
	{http.MethodGet, pathConsumers, needRead, (*server).listConsumers},
	{http.MethodPost, pathConsumers, needWrite, (*server).createConsumer},
	{http.MethodGet, pathConsumer, needRead, (*server).getConsumer},
	{http.MethodPut, pathConsumer, needWrite, (*server).replaceConsumer},
	{http.MethodDelete, pathConsumer, needWrite, (*server).deleteConsumer},
	{http.MethodPost, pathMessages, needMessageWrite, (*server).pushMessage},
	{http.MethodPost, pathMessages + "/batch", needMessageWrite, (*server).pushBatch},
	{http.MethodPost, pathMessages + "/pull", needMessageWrite, (*server).pull},
	{http.MethodPost, pathMessages + "/ack", needMessageWrite, (*server).ack},
	{http.MethodPost, pathMessages + "/extend", needMessageWrite, (*server).extend},
	{http.MethodPost, pathMessages + "/peek", needMessageRead, (*server).peek},
	{http.MethodPost, pathMessages + "/purge", needMessageWrite, (*server).purgeMessages},
	{http.MethodPost, pathMessages + "/preview", needMessageRead, (*server).preview},
	{http.MethodPost, pathMessages + "/preview/ack", needMessageWrite, (*server).ackPreview},
	// The vendor's paths of 2024, without messages/.
	{http.MethodPost, pathQueue + "/pull", needMessageWrite, (*server).pull},
	{http.MethodPost, pathQueue + "/ack", needMessageWrite, (*server).ack},
	{http.MethodPost, pathQueue + "/purge", needWrite, (*server).startPurge},
	{http.MethodGet, pathQueue + "/purge", needRead, (*server).purgeStatus},
	{http.MethodGet, pathQueue + "/metrics", needRead, (*server).getMetrics},
	{http.MethodGet, pathSubscriptions, needRead, (*server).listSubscriptions},
	{http.MethodPost, pathSubscriptions, needWrite, (*server).createSubscription},
	{http.MethodGet, pathSubscription, needRead, (*server).getSubscription},
	{http.MethodPatch, pathSubscription, needWrite, (*server).changeSubscription},
	{http.MethodDelete, pathSubscription, needWrite, (*server).deleteSubscription},
	// What clients ask around the queues' routes.
	{http.MethodGet, "/accounts", needToken, (*server).listAccounts},
	{http.MethodGet, "/accounts/:account", needToken, (*server).getAccount},
	{http.MethodGet, "/memberships", needToken, (*server).listMemberships},
	{http.MethodGet, "/user", needToken, (*server).getUser},
	{http.MethodGet, "/user/tokens/verify", needVerify, (*server).verifyToken},
	{http.MethodGet, "/accounts/:account/tokens/verify", needVerify, (*server).verifyToken},
}
