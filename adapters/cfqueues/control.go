package cfqueues

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"time"

	"github.com/go-playground/validator/v10"
)

// queueBody is the decoded body of a queue's creation or change. Only the creation
// needs a name.
type queueBody struct {
	QueueName *string `json:"queue_name"`
	Settings  queueSettingsBody
}

// queueSettingsBody are the settings of a queue as a request gives them; nil is unset.
// What was given as null is in Cleared: it goes back to its default even where what is
// unset stays.
type queueSettingsBody struct {
	DeliveryDelay          *int64 `json:"delivery_delay" validate:"omitnil,within=delay"`
	DeliveryPaused         *bool  `json:"delivery_paused"`
	MessageRetentionPeriod *int64 `json:"message_retention_period" validate:"omitnil,within=retention"`
	// JSONBodyEncoding is an extension: "base64" or "plain".
	JSONBodyEncoding *string `json:"json_body_encoding" validate:"omitnil,oneof=base64 plain"`
	Cleared          []string
}

// consumerBody is the decoded body of a consumer's creation or replacement.
type consumerBody struct {
	Type            *string
	DeadLetterQueue *string // its name is checked when it has to be made
	Settings        consumerSettingsBody
	// Script and Environment belong to workers.
	Script, Environment *string
}

// consumerSettingsBody are the settings of a consumer as a request gives them; nil is
// unset.
type consumerSettingsBody struct {
	BatchSize           *int64 `json:"batch_size" validate:"omitnil,within=batch"`
	MaxRetries          *int64 `json:"max_retries" validate:"omitnil,within=retries"`
	RetryDelay          *int64 `json:"retry_delay" validate:"omitnil,within=delay"`
	VisibilityTimeoutMS *int64 `json:"visibility_timeout_ms" validate:"omitnil,within=visibility"`
	// These two belong to workers.
	MaxConcurrency *int64 `json:"max_concurrency" validate:"omitnil,within=concurrency"`
	MaxWaitTimeMS  *int64 `json:"max_wait_time_ms" validate:"omitnil,within=wait"`
}

// queueName is the vendor's rule for the names of queues.
var queueName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// bounds are a lowest and a highest value.
type bounds struct{ low, high int64 }

// control checks the bodies of the control plane. The bounds are options, so each
// adapter has a validator of its own.
type control struct {
	validate *validator.Validate
	bounds   map[string]bounds
	// workers takes consumers of type worker.
	workers bool
}

// newControl makes the validator for a set of limits.
func newControl(o *Options) *control {
	l := &o.Limits
	c := &control{
		workers:  o.InertWorkerConsumers || o.Lenient,
		validate: validator.New(validator.WithRequiredStructEnabled()),
		bounds: map[string]bounds{
			"delay":      {0, int64(l.MaxDelay / time.Second)},
			"retention":  {int64(l.MinRetention / time.Second), int64(l.MaxRetention / time.Second)},
			"batch":      {1, int64(l.MaxPullMessages)},
			"retries":    {0, int64(l.MaxRetries)},
			"visibility": {0, l.MaxVisibilityTimeout.Milliseconds()},
			// The vendor's bounds for workers, which no setting moves: none runs here.
			"concurrency": {1, 250},
			"wait":        {0, time.Minute.Milliseconds()},
		},
	}
	c.validate.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("json") })
	within := func(fl validator.FieldLevel) bool {
		b, ok := c.bounds[fl.Param()]
		return ok && outOfBounds(fl.Field().Int(), b.low, b.high) == ""
	}
	if err := c.validate.RegisterValidation("within", within); err != nil {
		// Only an empty or reserved tag is refused, and this is neither.
		panic(err)
	}
	return c
}

// check validates a decoded body and puts the first failure into this protocol's
// words: names have their code, everything else is a setting, whose code differs
// between queues and consumers and is built by settings.
func (c *control) check(body any, settings func(text string) *apiError) *apiError {
	var failures validator.ValidationErrors
	err := c.validate.Struct(body)
	if err == nil {
		return nil
	}
	if !errors.As(err, &failures) || len(failures) == 0 {
		return errInternal(fmt.Errorf("validate a control plane body: %w", err))
	}
	f := failures[0]
	switch f.Tag() {
	case "oneof":
		return settings(fmt.Sprintf("%s must be one of: %s", f.Field(), f.Param()))
	default:
		b := c.bounds[f.Param()]
		return settings(fmt.Sprintf("%s must be between %d and %d, received %v", f.Field(), b.low, b.high, f.Value()))
	}
}

// decodeQueue reads and checks the body of a queue's creation or change.
func (c *control) decodeQueue(body []byte) (queueBody, *apiError) {
	var q queueBody
	v, err := checkJSON(body)
	if err != nil {
		return q, err
	}
	err = v.eachMember(root, func(name string, value rawValue) *apiError {
		switch name {
		case "queue_name":
			return optional(&q.QueueName, value, root.in(name), rawValue.text)
		case "settings":
			return decodeQueueSettings(&q.Settings, value, root.in(name))
		}
		return nil
	})
	if err != nil {
		return q, err
	}
	return q, c.check(&q, errQueueSettings)
}

// decodeQueueSettings reads the settings of a queue; null is an empty object.
func decodeQueueSettings(s *queueSettingsBody, v rawValue, at path) *apiError {
	*s = queueSettingsBody{}
	if v.isNull() {
		return nil
	}
	return v.eachMember(at, func(name string, value rawValue) *apiError {
		if value.isNull() {
			s.Cleared = append(s.Cleared, name)
		}
		switch name {
		case "delivery_delay":
			return optional(&s.DeliveryDelay, value, at.in(name), rawValue.integer)
		case "delivery_paused":
			return optional(&s.DeliveryPaused, value, at.in(name), rawValue.boolean)
		case "message_retention_period":
			return optional(&s.MessageRetentionPeriod, value, at.in(name), rawValue.integer)
		case "json_body_encoding":
			return optional(&s.JSONBodyEncoding, value, at.in(name), rawValue.text)
		}
		return nil
	})
}

// decodeConsumer reads and checks the body of a consumer's creation or replacement.
func (c *control) decodeConsumer(body []byte) (consumerBody, *apiError) {
	var b consumerBody
	v, err := checkJSON(body)
	if err != nil {
		return b, err
	}
	err = v.eachMember(root, func(name string, value rawValue) *apiError {
		switch name {
		case "type":
			return optional(&b.Type, value, root.in(name), rawValue.text)
		case "dead_letter_queue":
			return optional(&b.DeadLetterQueue, value, root.in(name), rawValue.text)
		case "script", "script_name":
			return optional(&b.Script, value, root.in(name), rawValue.text)
		case "environment", "environment_name":
			return optional(&b.Environment, value, root.in(name), rawValue.text)
		case "settings":
			return decodeConsumerSettings(&b.Settings, value, root.in(name))
		}
		return nil
	})
	if err != nil {
		return b, err
	}
	switch {
	case b.Type == nil:
		return b, errConsumerType()
	case *b.Type == typeWorker && !c.workers:
		return b, errWorkerConsumer()
	case *b.Type != typeHTTPPull && *b.Type != typeWorker:
		return b, errConsumerType()
	}
	// The newer schema shows an unset dead letter queue as "", so a client that sends
	// back what it was shown means none.
	if b.DeadLetterQueue != nil && *b.DeadLetterQueue == "" {
		b.DeadLetterQueue = nil
	}
	return b, c.check(&b, errConsumerSettings)
}

// decodeConsumerSettings reads the settings of a consumer; null is an empty object.
func decodeConsumerSettings(s *consumerSettingsBody, v rawValue, at path) *apiError {
	*s = consumerSettingsBody{}
	if v.isNull() {
		return nil
	}
	return v.eachMember(at, func(name string, value rawValue) *apiError {
		switch name {
		case "batch_size":
			return optional(&s.BatchSize, value, at.in(name), rawValue.integer)
		case "max_retries":
			return optional(&s.MaxRetries, value, at.in(name), rawValue.integer)
		case "retry_delay":
			return optional(&s.RetryDelay, value, at.in(name), rawValue.integer)
		case "visibility_timeout_ms":
			return optional(&s.VisibilityTimeoutMS, value, at.in(name), rawValue.integer)
		case "max_concurrency":
			return optional(&s.MaxConcurrency, value, at.in(name), rawValue.integer)
		case "max_wait_time_ms":
			return optional(&s.MaxWaitTimeMS, value, at.in(name), rawValue.integer)
		}
		return nil
	})
}

// optional decodes a field that may be null, which leaves it unset.
func optional[T any](field **T, v rawValue, at path, decode func(rawValue, path) (T, *apiError)) *apiError {
	*field = nil
	if v.isNull() {
		return nil
	}
	value, err := decode(v, at)
	if err != nil {
		return err
	}
	*field = &value
	return nil
}
