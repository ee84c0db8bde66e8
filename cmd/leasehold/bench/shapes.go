package bench

import "encoding/json"

// The bodies of the protocols' requests, for the HTTP floor to decode. They
// are fixed for good: a change here changes every ratio.
type (
	queenPush struct {
		Items []struct {
			Queue         string          `json:"queue"`
			Partition     string          `json:"partition"`
			Payload       json.RawMessage `json:"payload"`
			TransactionID *string         `json:"transactionId"`
			TraceID       *string         `json:"traceId"`
		} `json:"items"`
	}
	queenAck struct {
		TransactionID string  `json:"transactionId"`
		PartitionID   string  `json:"partitionId"`
		Status        string  `json:"status"`
		LeaseID       string  `json:"leaseId"`
		ConsumerGroup *string `json:"consumerGroup"`
		Error         *string `json:"error"`
	}
	queenAckBatch struct {
		Acknowledgments []queenAck `json:"acknowledgments"`
		ConsumerGroup   *string    `json:"consumerGroup"`
	}

	queratorProduce struct {
		QueueName      string `json:"queue_name"`
		RequestTimeout string `json:"request_timeout"`
		Items          []struct {
			Encoding  string  `json:"encoding"`
			Kind      string  `json:"kind"`
			Reference string  `json:"reference"`
			EnqueueAt *string `json:"enqueue_at"`
			Bytes     []byte  `json:"bytes"`
			UTF8      string  `json:"utf8"`
		} `json:"items"`
	}
	queratorLease struct {
		QueueName      string `json:"queue_name"`
		BatchSize      int32  `json:"batch_size"`
		ClientID       string `json:"client_id"`
		RequestTimeout string `json:"request_timeout"`
	}
	queratorRetry struct {
		QueueName string `json:"queue_name"`
		Partition int32  `json:"partition"`
		Items     []struct {
			ID      string  `json:"id"`
			RetryAt *string `json:"retry_at"`
			Dead    bool    `json:"dead"`
		} `json:"items"`
	}
	queratorComplete struct {
		QueueName      string   `json:"queue_name"`
		Partition      int32    `json:"partition"`
		RequestTimeout string   `json:"request_timeout"`
		IDs            []string `json:"ids"`
	}

	cfMessage struct {
		Body         json.RawMessage `json:"body"`
		ContentType  string          `json:"content_type"`
		DelaySeconds *float64        `json:"delay_seconds"`
	}
	cfBatch struct {
		Messages     []cfMessage `json:"messages"`
		DelaySeconds *float64    `json:"delay_seconds"`
	}
	cfPull struct {
		BatchSize           *float64 `json:"batch_size"`
		VisibilityTimeoutMS *float64 `json:"visibility_timeout_ms"`
	}
	cfAck struct {
		Acks []struct {
			LeaseID string `json:"lease_id"`
		} `json:"acks"`
		Retries []struct {
			LeaseID      string   `json:"lease_id"`
			DelaySeconds *float64 `json:"delay_seconds"`
		} `json:"retries"`
	}
)

// floorRoute is a route of the HTTP floor.
type floorRoute struct {
	method, path string
	op           operation
	shape        func() any // nil for a request without a body
}

// floorRoutes are the routes of a protocol that a load of single messages, or
// of batches, calls.
func floorRoutes(protocol string, single bool) []floorRoute {
	switch protocol {
	case "queen":
		settle := floorRoute{"POST", "/api/v1/ack/batch", opSettle, func() any { return new(queenAckBatch) }}
		if single {
			settle = floorRoute{"POST", "/api/v1/ack", opSettle, func() any { return new(queenAck) }}
		}
		return []floorRoute{
			{"POST", "/api/v1/push", opPush, func() any { return new(queenPush) }},
			{"GET", "/api/v1/pop/queue/:queue", opClaim, nil},
			settle,
		}
	case "querator":
		return []floorRoute{
			{"POST", "/v1/queue.produce", opPush, func() any { return new(queratorProduce) }},
			{"POST", "/v1/queue.lease", opClaim, func() any { return new(queratorLease) }},
			{"POST", "/v1/queue.complete", opSettle, func() any { return new(queratorComplete) }},
			{"POST", "/v1/queue.retry", opSettle, func() any { return new(queratorRetry) }},
		}
	}
	const base = "/accounts/:account/queues/:queue/messages"
	push := floorRoute{"POST", base + "/batch", opPush, func() any { return new(cfBatch) }}
	if single {
		push = floorRoute{"POST", base, opPush, func() any { return new(cfMessage) }}
	}
	return []floorRoute{
		push,
		{"POST", base + "/pull", opClaim, func() any { return new(cfPull) }},
		{"POST", base + "/ack", opSettle, func() any { return new(cfAck) }},
	}
}
