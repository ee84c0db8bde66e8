package cfqueues

// The types of consumers. Only http_pull runs outside the vendor's network; a worker is
// stored and shown, where that is switched on.
const (
	typeHTTPPull = "http_pull"
	typeWorker   = "worker"
)

// timeLayout is RFC 3339 in UTC with microseconds, as the live service writes times.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// queueObject is a queue as every route shows it.
type queueObject struct {
	QueueID             string           `json:"queue_id"`
	QueueName           string           `json:"queue_name"`
	CreatedOn           string           `json:"created_on"`
	ModifiedOn          string           `json:"modified_on"`
	Settings            queueSettings    `json:"settings"`
	ProducersTotalCount int              `json:"producers_total_count"`
	Producers           []struct{}       `json:"producers"` // there are only Workers in it, so always none
	ConsumersTotalCount int              `json:"consumers_total_count"`
	Consumers           []consumerObject `json:"consumers"`
}

// queueSettings are a queue's effective settings. All three are always shown, since
// Terraform reports a difference for one that is missing.
type queueSettings struct {
	DeliveryDelay          int64 `json:"delivery_delay"`           // seconds
	DeliveryPaused         bool  `json:"delivery_paused"`          //
	MessageRetentionPeriod int64 `json:"message_retention_period"` // seconds
}

// consumerObject is a consumer. It has the queue's id and its name, and a worker its
// script under two names, because the generations of clients read different ones.
type consumerObject struct {
	ConsumerID      string  `json:"consumer_id"`
	Type            string  `json:"type"`
	CreatedOn       string  `json:"created_on"`
	QueueID         string  `json:"queue_id"`
	QueueName       string  `json:"queue_name"`
	DeadLetterQueue string  `json:"dead_letter_queue"` // a name, "" for none
	Script          *string `json:"script,omitempty"`
	ScriptName      *string `json:"script_name,omitempty"`
	Environment     *string `json:"environment,omitempty"`
	Settings        any     `json:"settings"` // pullSettings or workerSettings
}

// workerSettings are a worker's effective settings, always complete.
type workerSettings struct {
	BatchSize      int64  `json:"batch_size"`
	MaxConcurrency *int32 `json:"max_concurrency"` // null leaves it to the vendor
	MaxRetries     int64  `json:"max_retries"`
	MaxWaitTimeMS  int64  `json:"max_wait_time_ms"`
	RetryDelay     int64  `json:"retry_delay"` // seconds
}

// pullSettings are a pull consumer's effective settings, always complete.
type pullSettings struct {
	BatchSize           int64 `json:"batch_size"`
	MaxRetries          int64 `json:"max_retries"`
	RetryDelay          int64 `json:"retry_delay"` // seconds
	VisibilityTimeoutMS int64 `json:"visibility_timeout_ms"`
}

// metrics describes a queue's backlog; leased and delayed messages count.
type metrics struct {
	BacklogCount             int64 `json:"backlog_count"`
	BacklogBytes             int64 `json:"backlog_bytes"`
	OldestMessageTimestampMS int64 `json:"oldest_message_timestamp_ms"` // 0 when empty
}

// ackObject is the answer to an acknowledgement.
type ackObject struct {
	AckCount   int               `json:"ackCount"`
	RetryCount int               `json:"retryCount"`
	Warnings   map[string]string `json:"warnings"` // lease id to text
}

// purgeObject is the status of the last purge. Both fields are left out before the
// first one.
type purgeObject struct {
	Completed string `json:"completed,omitempty"` // a flag as a string: "true" or "false"
	StartedAt string `json:"started_at,omitempty"`
}
