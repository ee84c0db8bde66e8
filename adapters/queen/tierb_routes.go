package queen

import (
	"net/http"
)

// viewRoutes are the routes of the dashboard and of metrics, and those that operate the server (protocol §2.2, §2.3).
var viewRoutes = []route{
	{http.MethodGet, "/api/v1/resources/overview", levelReadOnly, (*server).overview},
	{http.MethodGet, "/api/v1/resources/namespaces", levelReadOnly, (*server).namespaces},
	{http.MethodGet, "/api/v1/resources/tasks", levelReadOnly, (*server).tasks},
	{http.MethodGet, "/api/v1/resources/queues/:queue/depth", levelReadOnly, (*server).queueDepth},
	{http.MethodGet, "/api/v1/messages", levelReadOnly, (*server).listMessages},
	{http.MethodGet, "/api/v1/messages/:partitionId/:transactionId", levelReadOnly, (*server).messageDetail},
	{http.MethodGet, "/api/v1/consumer-groups", levelReadOnly, (*server).consumerGroups},
	{http.MethodGet, "/api/v1/consumer-groups/lagging", levelReadOnly, (*server).laggingGroups},
	{http.MethodGet, "/api/v1/consumer-groups/:group", levelReadOnly, (*server).consumerGroup},
	{http.MethodGet, "/api/v1/status", levelReadOnly, (*server).statusSummary},
	{http.MethodGet, "/api/v1/status/queues", levelReadOnly, (*server).statusQueues},
	{http.MethodGet, "/api/v1/status/queues/", levelReadOnly, (*server).statusQueue},
	{http.MethodGet, "/api/v1/status/queues/:queue", levelReadOnly, (*server).statusQueue},
	{http.MethodGet, "/api/v1/status/queues/:queue/messages", levelReadOnly, (*server).queueMessages},
	{http.MethodGet, "/api/v1/status/analytics", levelReadOnly, (*server).analytics},
	{http.MethodGet, "/api/v1/status/buffers", levelReadOnly, (*server).buffers},
	{http.MethodGet, "/api/v1/analytics/queue-lag", levelReadOnly, (*server).queueLag},
	{http.MethodGet, "/api/v1/analytics/queue-ops", levelReadOnly, (*server).queueOps},
	{http.MethodGet, "/api/v1/analytics/queue-parked-replicas", levelReadOnly, (*server).queueParked},
	{http.MethodGet, "/api/v1/analytics/retention", levelReadOnly, (*server).retention},
	{http.MethodGet, "/api/v1/analytics/system-metrics", levelReadOnly, (*server).systemMetrics},
	{http.MethodGet, "/api/v1/analytics/worker-metrics", levelReadOnly, (*server).workerMetrics},
	{http.MethodGet, "/api/v1/analytics/postgres-stats", levelReadOnly, (*server).databaseStats},
	{http.MethodGet, "/api/v1/analytics/workload", levelReadOnly, (*server).workload},
	{http.MethodGet, "/api/v1/analytics/dlq-signatures", levelReadOnly, (*server).deadSignatures},
	{http.MethodGet, "/api/v1/analytics/partition-liveness", levelReadOnly, (*server).partitionLiveness},
	{http.MethodPost, "/api/v1/stats/refresh", levelAdmin, (*server).refreshStats},
	{http.MethodGet, "/status", levelReadOnly, (*server).plainStatus},
	{http.MethodGet, "/metrics", levelPublic, (*server).metrics},
	{http.MethodGet, "/metrics/prometheus", levelPublic, (*server).prometheus},
	{http.MethodGet, "/api/v1/system/maintenance", levelAdmin, (*server).maintenanceState},
	{http.MethodPost, "/api/v1/system/maintenance", levelAdmin, (*server).setMaintenance},
	{http.MethodGet, "/api/v1/system/maintenance/pop", levelAdmin, (*server).popMaintenanceState},
	{http.MethodPost, "/api/v1/system/maintenance/pop", levelAdmin, (*server).setPopMaintenance},
	{http.MethodGet, "/api/v1/system/shared-state", levelAdmin, (*server).sharedState},
	{http.MethodGet, "/internal/api/shared-state/stats", levelAdmin, (*server).sharedState},
	{http.MethodGet, "/internal/api/inter-instance/stats", levelAdmin, (*server).sharedState},
	{http.MethodPost, "/internal/api/notify", levelAdmin, (*server).notify},
}
