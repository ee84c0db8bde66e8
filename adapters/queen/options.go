package queen

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-playground/validator/v10"

	"github.com/leasehold/leasehold/core"
)

// option is one key of configure's options: its name on the wire and where its
// value lies. Exactly one of the three is set.
type option struct {
	name    string
	integer func(*core.Queen) *int64
	boolean func(*core.Queen) *bool
	text    func(*core.Queen) *string
}

// queueOptions lists every option of protocol §6.13, in the order in which
// answers show them. encryptionEnabled is stored and shown, and not enforced
// yet; priority, ttl, maxSize, retryDelay and the sink options never are, by
// the original neither.
var queueOptions = []option{
	{name: "leaseTime", integer: func(q *core.Queen) *int64 { return &q.LeaseTimeSeconds }},
	{name: "retryLimit", integer: func(q *core.Queen) *int64 { return &q.RetryLimit }},
	{name: "retryDelay", integer: func(q *core.Queen) *int64 { return &q.RetryDelayMillis }},
	{name: "deadLetterQueue", boolean: func(q *core.Queen) *bool { return &q.DeadLetterQueue }},
	{name: "dlqAfterMaxRetries", boolean: func(q *core.Queen) *bool { return &q.DLQAfterMaxRetries }},
	{name: "delayedProcessing", integer: func(q *core.Queen) *int64 { return &q.DelayedProcessingSeconds }},
	{name: "windowBuffer", integer: func(q *core.Queen) *int64 { return &q.WindowBufferSeconds }},
	{name: "minPopWaitTime", integer: func(q *core.Queen) *int64 { return &q.MinPopWaitMillis }},
	{name: "retentionEnabled", boolean: func(q *core.Queen) *bool { return &q.RetentionEnabled }},
	{name: "retentionSeconds", integer: func(q *core.Queen) *int64 { return &q.RetentionSeconds }},
	{name: "completedRetentionSeconds", integer: func(q *core.Queen) *int64 { return &q.CompletedSeconds }},
	{name: "maxWaitTimeSeconds", integer: func(q *core.Queen) *int64 { return &q.MaxWaitSeconds }},
	{name: "encryptionEnabled", boolean: func(q *core.Queen) *bool { return &q.EncryptionEnabled }},
	{name: "dedupWindowSeconds", integer: func(q *core.Queen) *int64 { return &q.DedupWindowSeconds }},
	{name: "priority", integer: func(q *core.Queen) *int64 { return &q.Priority }},
	{name: "ttl", integer: func(q *core.Queen) *int64 { return &q.TTLSeconds }},
	{name: "maxSize", integer: func(q *core.Queen) *int64 { return &q.MaxSize }},
	{name: "retentionSinkHold", text: func(q *core.Queen) *string { return &q.RetentionSinkHold }},
	{name: "retentionSinkHoldMaxSeconds", integer: func(q *core.Queen) *int64 { return &q.RetentionSinkMaxSeconds }},
}

func findOption(name string) (option, bool) {
	for _, o := range queueOptions {
		if o.name == name {
			return o, true
		}
	}
	return option{}, false
}

// copy sets o in to as it is in from.
func (o option) copy(to, from *core.Queen) {
	switch {
	case o.integer != nil:
		*o.integer(to) = *o.integer(from)
	case o.boolean != nil:
		*o.boolean(to) = *o.boolean(from)
	default:
		*o.text(to) = *o.text(from)
	}
}

// appendOptions appends every option with its JSON type.
func appendOptions(b []byte, q *core.Queen) []byte {
	for _, o := range queueOptions {
		switch {
		case o.integer != nil:
			b = appendIntField(b, o.name, *o.integer(q))
		case o.boolean != nil:
			b = appendBoolField(b, o.name, *o.boolean(q))
		default:
			b = appendStringField(b, o.name, *o.text(q))
		}
	}
	return b
}

// configuredDefaults are the options of a queue that configure makes, and what
// an explicit null restores (protocol §6.13).
func configuredDefaults() core.Queen {
	q := core.ImplicitQueen()
	q.LeaseTimeSeconds = core.QueenConfiguredLeaseSeconds
	q.Configured = true
	return q
}

// configureBody is the body of a configure call.
type configureBody struct {
	Queue     *string `validate:"required,queenname"`
	Namespace *string `validate:"omitempty,queenname"`
	Task      *string `validate:"omitempty,queenname"`
	Mode      string  `validate:"omitempty,oneof=merge replace"`

	// set holds the options given, those under "options" after those beside it.
	set []option
	// values holds what they are set to; a null is the default.
	values core.Queen
}

// apply returns the options that the call leaves behind on a queue that had
// old. replace forgets what the call does not name.
func (c *configureBody) apply(old core.QueueOptions, replace bool) core.QueueOptions {
	next := old
	switch {
	case replace:
		next.Queen = configuredDefaults()
		next.Namespace, next.Task = "", ""
	case !old.Queen.Configured:
		// Nobody chose what an implicit queue has, so the first call begins
		// with configure's own defaults.
		next.Queen = configuredDefaults()
	}
	next.Queen.Configured = true
	for _, o := range c.set {
		o.copy(&next.Queen, &c.values)
	}
	next.Queen.MinPopWaitMillis = min(max(next.Queen.MinPopWaitMillis, 0), 60000)
	next.Queen.DedupWindowSeconds = max(next.Queen.DedupWindowSeconds, 0)
	if c.Namespace != nil {
		next.Namespace = *c.Namespace
	}
	if c.Task != nil {
		next.Task = *c.Task
	}
	return next
}

// encrypts reports whether the call asks for encryption at rest.
func (c *configureBody) encrypts() bool {
	return c.values.EncryptionEnabled && slices.ContainsFunc(c.set, func(o option) bool { return o.name == "encryptionEnabled" })
}

// decodeConfigure reads and checks the body of a configure call. Options may
// sit under "options" or at the top level (protocol §3.6).
func decodeConfigure(body []byte) (*configureBody, error) {
	c := &configureBody{values: configuredDefaults()}
	nested := &configureBody{values: configuredDefaults()}
	err := decodeObject(body, func(s *scanner, key string) error {
		switch key {
		case "queue":
			return s.pointer(key, &c.Queue)
		case "namespace":
			return s.pointer(key, &c.Namespace)
		case "task":
			return s.pointer(key, &c.Task)
		case "mode":
			return s.optionalString(key, &c.Mode)
		case "options":
			if s.null() {
				return nil
			}
			return s.object(func(key []byte) error { return nested.option(s, string(key)) })
		}
		return c.option(s, key)
	})
	if err != nil {
		return nil, err
	}
	for _, o := range nested.set {
		o.copy(&c.values, &nested.values)
	}
	c.set = append(c.set, nested.set...)
	return c, checkConfigure(c)
}

// option reads one option; a key that is none is passed over.
func (c *configureBody) option(s *scanner, key string) (err error) {
	o, ok := findOption(key)
	if !ok {
		return s.skip(0)
	}
	if s.null() {
		defaults := configuredDefaults()
		o.copy(&c.values, &defaults)
	} else {
		switch {
		case o.integer != nil:
			*o.integer(&c.values), err = s.integer(key)
		case o.boolean != nil:
			*o.boolean(&c.values), err = s.boolean(key)
		default:
			*o.text(&c.values), err = s.str(key, "")
		}
	}
	c.set = append(c.set, o)
	return err
}

// pointer reads a string that may be null; *to stays nil for a null.
func (s *scanner) pointer(what string, to **string) error {
	if s.null() {
		return nil
	}
	value, err := s.str(what, "")
	if err == nil {
		*to = &value
	}
	return err
}

// validate checks control-plane bodies.
var validate = func() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	err := v.RegisterValidation("queenname", func(f validator.FieldLevel) bool {
		return checkName("name", f.Field().String()) == nil
	})
	if err != nil {
		panic(err) // the tag or the function is missing: a mistake in this file
	}
	return v
}()

// checkConfigure turns what the validator finds into the protocol's words.
func checkConfigure(c *configureBody) error {
	var found validator.ValidationErrors
	if !errors.As(validate.Struct(c), &found) {
		return nil
	}
	field := strings.ToLower(found[0].Field())
	switch found[0].Tag() {
	case "required":
		return bodyErrorf("%s is required", field)
	case "oneof":
		return bodyErrorf("%s must be one of: %s", field, strings.ReplaceAll(found[0].Param(), " ", ", "))
	}
	return bodyErrorf("%s must not contain the byte 0x1F", field)
}
