package cfqueues

import (
	"bytes"
	"encoding/json"
)

// subscriptionBody is the decoded body of a subscription's creation or change; nil is
// unset.
type subscriptionBody struct {
	Name    *string
	Enabled *bool
	Events  []string
	Source  json.RawMessage
	QueueID *string
}

// decodeSubscription reads the body of a subscription's creation or change.
func decodeSubscription(body []byte) (subscriptionBody, *apiError) {
	var b subscriptionBody
	v, err := checkJSON(body)
	if err != nil {
		return b, err
	}
	return b, v.eachMember(root, func(name string, value rawValue) *apiError {
		at := root.in(name)
		switch {
		case name == "name":
			return optional(&b.Name, value, at, rawValue.text)
		case name == "enabled":
			return optional(&b.Enabled, value, at, rawValue.boolean)
		case value.isNull():
			return nil
		case name == "events":
			b.Events = []string{}
			return value.eachElement(at, func(i int, element rawValue) *apiError {
				event, err := element.text(at.at(i))
				b.Events = append(b.Events, event)
				return err
			})
		case name == "source":
			return decodeSource(&b.Source, value, at)
		case name == "destination":
			return decodeDestination(&b.QueueID, value, at)
		}
		return nil
	})
}

// decodeSource keeps a source as it is. Only its type is looked at: every type names a
// product of the vendor that is not here, and new ones come.
func decodeSource(source *json.RawMessage, v rawValue, at path) *apiError {
	var kind *string
	err := v.eachMember(at, func(name string, value rawValue) *apiError {
		if name == "type" {
			return optional(&kind, value, at.in(name), rawValue.text)
		}
		return nil
	})
	if err == nil && textOr(kind) == "" {
		err = errShape("Required", at.in("type"))
	}
	*source = nil
	if err == nil {
		var compact bytes.Buffer
		if compactErr := json.Compact(&compact, v); compactErr != nil {
			return errInternal(compactErr)
		}
		*source = compact.Bytes()
	}
	return err
}

// decodeDestination reads a destination, which is a queue by its id.
func decodeDestination(queue **string, v rawValue, at path) *apiError {
	var kind *string
	*queue = nil
	err := v.eachMember(at, func(name string, value rawValue) *apiError {
		switch name {
		case "type":
			return optional(&kind, value, at.in(name), rawValue.text)
		case "queue_id":
			return optional(queue, value, at.in(name), rawValue.text)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case kind != nil && *kind != typeQueueDestination:
		return errShape(`Expected "queues.queue"`, at.in("type"))
	case *queue == nil:
		return errShape("Required", at.in("queue_id"))
	}
	return nil
}
