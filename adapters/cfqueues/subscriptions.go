package cfqueues

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

// Event subscriptions tell the vendor's other products to push into a queue. None of
// them is here, so no event ever comes. By default none can be made, and lists are
// empty; with InertSubscriptions they are stored, so that the tools which make them
// find them again.

// kindSubscription is the kind of the records that hold subscriptions, by id.
const kindSubscription = "cfqueues.subscription"

// typeQueueDestination is the one type of destination.
const typeQueueDestination = "queues.queue"

// subscriptionObject is a subscription as it is shown and stored.
type subscriptionObject struct {
	ID          string                  `json:"id"`
	Name        string                  `json:"name"`
	Enabled     bool                    `json:"enabled"`
	Events      []string                `json:"events"`
	Source      json.RawMessage         `json:"source"`
	Destination subscriptionDestination `json:"destination"`
	CreatedAt   string                  `json:"created_at"`
	ModifiedAt  string                  `json:"modified_at"`
}

// subscriptionDestination is the queue that would get the events.
type subscriptionDestination struct {
	Type    string `json:"type"`
	QueueID string `json:"queue_id"`
}

// subscriptions reads those that the caller may see, by id.
func (s *server) subscriptions(c *gin.Context) ([]subscriptionObject, *apiError) {
	list := []subscriptionObject{}
	if !s.o.InertSubscriptions && !s.o.Lenient {
		return list, nil
	}
	const page = 500
	ctx := c.Request.Context()
	for after := ""; ; {
		records, err := s.engine.ListRecords(ctx, core.ListRecordsParams{Kind: kindSubscription, After: after, Limit: page})
		if err != nil {
			return nil, fromCore(err)
		}
		for i := range records {
			var o subscriptionObject
			if err := json.Unmarshal(records[i].Value, &o); err != nil {
				return nil, errInternal(err)
			}
			if s.checkDestination(c, &o) == nil {
				list = append(list, o)
			}
		}
		if len(records) < page {
			return list, nil
		}
		after = records[len(records)-1].Name
	}
}

// checkDestination refuses a subscription of a queue that the caller's token is not for.
// One whose queue is gone belongs to tokens for every queue.
func (s *server) checkDestination(c *gin.Context, o *subscriptionObject) *apiError {
	who := callerOf(c)
	if who == nil || who.token.Everywhere() {
		return nil
	}
	id, _ := parseID(o.Destination.QueueID)
	q, err := s.engine.QueueByID(c.Request.Context(), id)
	if err != nil {
		return errNoSubscription()
	}
	return who.check(q.Name)
}

// listSubscriptions answers GET /event_subscriptions/subscriptions.
func (s *server) listSubscriptions(c *gin.Context) *apiError {
	query := c.Request.URL.Query()
	page, perPage, bad := pageOf(query)
	if bad != nil {
		return bad
	}
	const most = 100
	if perPage == 0 {
		perPage = defaultPerPage
	}
	if perPage > most {
		return errShape(outOfBounds(int64(perPage), 1, most), root.in("per_page"))
	}
	order, bad := subscriptionOrder(query)
	if bad != nil {
		return bad
	}
	all, bad := s.subscriptions(c)
	if bad != nil {
		return bad
	}
	if id := query.Get("queue_id"); id != "" {
		all = slices.DeleteFunc(all, func(o subscriptionObject) bool { return o.Destination.QueueID != id })
	}
	slices.SortStableFunc(all, order)
	from := min((page-1)*perPage, len(all))
	shown := all[from:min(from+perPage, len(all))]
	writeList(c, shown, &resultInfo{
		Count: len(shown), Page: page, PerPage: perPage, TotalCount: len(all), TotalPages: (len(all) + perPage - 1) / perPage,
	})
	return nil
}

// subscriptionOrder reads order and direction; by name, rising, is the default.
func subscriptionOrder(query url.Values) (func(a, b subscriptionObject) int, *apiError) {
	orders := map[string]func(a, b *subscriptionObject) int{
		"name":       func(a, b *subscriptionObject) int { return strings.Compare(a.Name, b.Name) },
		"created_at": func(a, b *subscriptionObject) int { return strings.Compare(a.CreatedAt, b.CreatedAt) },
		"enabled":    func(a, b *subscriptionObject) int { return cmp.Compare(flag(a.Enabled), flag(b.Enabled)) },
		"source":     func(a, b *subscriptionObject) int { return bytes.Compare(a.Source, b.Source) },
	}
	by, ok := orders[cmp.Or(query.Get("order"), "name")]
	if !ok {
		return nil, errShape("Expected created_at, name, enabled or source", root.in("order"))
	}
	switch cmp.Or(query.Get("direction"), "asc") {
	case "asc":
		return func(a, b subscriptionObject) int { return by(&a, &b) }, nil
	case "desc":
		return func(a, b subscriptionObject) int { return by(&b, &a) }, nil
	default:
		return nil, errShape("Expected asc or desc", root.in("direction"))
	}
}

// flag orders false before true.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// createSubscription answers POST /event_subscriptions/subscriptions.
func (s *server) createSubscription(c *gin.Context) *apiError {
	b, bad := s.body(c, codeBodyInvalid)
	if bad != nil {
		return bad
	}
	defer release(c, b)
	in, bad := decodeSubscription(b.Bytes)
	if bad != nil {
		return bad
	}
	if !s.o.InertSubscriptions && !s.o.Lenient {
		return errSubscriptionsOff()
	}
	now := showTime(s.engine.Now())
	o := subscriptionObject{
		ID: hexID(core.NewMessageID(s.engine.Now())), Name: textOr(in.Name), Enabled: in.Enabled == nil || *in.Enabled,
		Events: []string{}, Source: in.Source, CreatedAt: now, ModifiedAt: now,
	}
	if o.Source == nil {
		return errShape("Required", root.in("source"))
	}
	if in.QueueID == nil {
		return errShape("Required", root.in("destination"))
	}
	if bad := s.applySubscription(c, &o, &in); bad != nil {
		return bad
	}
	all, bad := s.subscriptions(c)
	if bad != nil {
		return bad
	}
	for i := range all {
		if bytes.Equal(all[i].Source, o.Source) && all[i].Destination == o.Destination {
			return refusal(http.StatusMethodNotAllowed, codeSubscriptions, "This resource has a subscription to the queue already: '%s'", all[i].ID)
		}
	}
	return s.storeSubscription(c, nil, &o)
}

// applySubscription puts what a request names on a subscription.
func (s *server) applySubscription(c *gin.Context, o *subscriptionObject, in *subscriptionBody) *apiError {
	if in.QueueID != nil {
		id, ok := parseID(*in.QueueID)
		q, err := s.engine.QueueByID(c.Request.Context(), id)
		if !ok || core.CodeOf(err) == core.CodeNoQueue {
			return errQueueNotFound()
		}
		if err != nil {
			return fromCore(err)
		}
		if bad := callerOf(c).check(q.Name); bad != nil {
			return bad
		}
		o.Destination = subscriptionDestination{Type: typeQueueDestination, QueueID: *in.QueueID}
	}
	if in.Name != nil {
		o.Name = *in.Name
	}
	if in.Enabled != nil {
		o.Enabled = *in.Enabled
	}
	if in.Events != nil {
		o.Events = in.Events
	}
	return nil
}

// storeSubscription writes a subscription in place of what is stored, and answers with it.
func (s *server) storeSubscription(c *gin.Context, old []byte, o *subscriptionObject) *apiError {
	var value bytes.Buffer
	enc := json.NewEncoder(&value)
	enc.SetEscapeHTML(false) // the source is kept as it was given
	if err := enc.Encode(o); err != nil {
		return errInternal(err)
	}
	if err := s.engine.PutRecord(c.Request.Context(), kindSubscription, o.ID, old, value.Bytes()); err != nil {
		return fromCore(err)
	}
	writeResult(c, o)
	return nil
}

// subscription finds the one that the path names, with its bytes as stored.
func (s *server) subscription(ctx context.Context, c *gin.Context) (subscriptionObject, []byte, *apiError) {
	var o subscriptionObject
	id, ok := parseID(param(c, "subscription"))
	if !ok || !s.o.InertSubscriptions && !s.o.Lenient {
		return o, nil, errNoSubscription()
	}
	stored, err := s.engine.Record(ctx, kindSubscription, hexID(id))
	switch {
	case err != nil:
		return o, nil, fromCore(err)
	case stored == nil:
		return o, nil, errNoSubscription()
	}
	if err := json.Unmarshal(stored, &o); err != nil {
		return o, nil, errInternal(err)
	}
	return o, stored, s.checkDestination(c, &o)
}

// getSubscription answers GET /event_subscriptions/subscriptions/{id}.
func (s *server) getSubscription(c *gin.Context) *apiError {
	o, _, bad := s.subscription(c.Request.Context(), c)
	if bad != nil {
		return bad
	}
	writeResult(c, o)
	return nil
}

// changeSubscription answers PATCH /event_subscriptions/subscriptions/{id}: what the body
// leaves out stays, and the source always does.
func (s *server) changeSubscription(c *gin.Context) *apiError {
	b, bad := s.body(c, codeBodyInvalid)
	if bad != nil {
		return bad
	}
	defer release(c, b)
	o, stored, bad := s.subscription(c.Request.Context(), c)
	if bad != nil {
		return bad
	}
	in, bad := decodeSubscription(b.Bytes)
	if bad != nil {
		return bad
	}
	if bad := s.applySubscription(c, &o, &in); bad != nil {
		return bad
	}
	o.ModifiedAt = showTime(s.engine.Now())
	return s.storeSubscription(c, stored, &o)
}

// deleteSubscription answers DELETE /event_subscriptions/subscriptions/{id} with what it
// deleted.
func (s *server) deleteSubscription(c *gin.Context) *apiError {
	o, stored, bad := s.subscription(c.Request.Context(), c)
	if bad != nil {
		return bad
	}
	if err := s.engine.PutRecord(c.Request.Context(), kindSubscription, o.ID, stored, nil); err != nil {
		return fromCore(err)
	}
	writeResult(c, o)
	return nil
}

// codeSubscriptions is the code of subscriptions' own errors; the vendor publishes none.
const codeSubscriptions = 11020

// errSubscriptionsOff is for the creation of a subscription where none can be made.
func errSubscriptionsOff() *apiError {
	return refusal(http.StatusBadRequest, codeSubscriptions, "event subscriptions are not supported")
}

// errNoSubscription is for a subscription that does not exist.
func errNoSubscription() *apiError {
	return refusal(http.StatusNotFound, codeSubscriptions, "Event subscription does not exist.")
}
