package querator

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	accesspb "github.com/leasehold/leasehold/adapters/querator/pb/access"
	"github.com/leasehold/leasehold/core"
)

// systemNamespace is where queues without a namespace belong.
const systemNamespace = "_system"

func namespaceOf(q *core.Queue) string {
	if q.Options.Querator == nil || q.Options.Querator.Namespace == "" {
		return systemNamespace
	}
	return q.Options.Querator.Namespace
}

// kindNamespace is the kind of record that holds a namespace, by its name.
const kindNamespace = "querator.namespace"

// namespace is a namespace as it is stored.
type namespace struct {
	Description string    `json:"description,omitempty"`
	Tag         string    `json:"tag,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
}

// checkNamespaceName checks the spelling of a namespace's name.
func checkNamespaceName(name string) error {
	const what = "namespace name"
	switch {
	case len(name) > maxNamespaceBytes:
		return tooLong(what, "256")
	case strings.Contains(name, "~"):
		return hasCharacter(what, name, "~")
	case strings.Contains(name, ":"):
		return hasCharacter(what, name, ":")
	case strings.TrimSpace(name) == "":
		return cannotBeEmpty(what)
	case strings.ContainsFunc(name, unicode.IsSpace):
		return hasWhitespace(what, name)
	}
	return nil
}

// findNamespace returns a namespace with the bytes that it is stored as; the default one needs no
// record.
func (s *server) findNamespace(ctx context.Context, name string) (n namespace, stored []byte, err error) {
	if name == systemNamespace {
		return n, nil, nil
	}
	if stored, err = s.engine.Record(ctx, kindNamespace, name); err != nil {
		return n, nil, err
	}
	if stored == nil {
		return n, nil, noNamespace(name)
	}
	return n, stored, json.Unmarshal(stored, &n)
}

// decodeNamespace reads the body of namespaces.create and namespaces.update.
func (c *call) decodeNamespace() (*accesspb.Namespace, error) {
	m := &accesspb.Namespace{}
	if err := c.decode(m); err != nil {
		return nil, err
	}
	if err := checkNamespaceName(m.Name); err != nil {
		return nil, err
	}
	if strings.HasPrefix(m.Name, "_") {
		return nil, reservedNamespace(m.Name)
	}
	if err := checkTag("api_key_tag", m.ApiKeyTag); err != nil {
		return nil, err
	}
	return m, c.unscoped()
}

// createNamespace is namespaces.create.
func createNamespace(c *call) (reply, error) {
	m, err := c.decodeNamespace()
	if err != nil {
		return nil, err
	}
	n := namespace{Description: m.Description, Tag: m.ApiKeyTag, CreatedAt: c.engine.Now().Std()}
	switch err := c.putRecord(kindNamespace, m.Name, nil, n); {
	case err != nil && core.CodeOf(err) == core.CodeConflict:
		return nil, namespaceExists(m.Name)
	case err != nil:
		return nil, c.failed(operation{}, err)
	}
	return okReply{}, nil
}

// updateNamespace is namespaces.update: it replaces the description and the tag.
func updateNamespace(c *call) (reply, error) {
	m, err := c.decodeNamespace()
	if err != nil {
		return nil, err
	}
	n, old, err := c.findNamespace(c.ctx, m.Name)
	if err != nil {
		return nil, c.failed(operation{}, err)
	}
	n.Description, n.Tag = m.Description, m.ApiKeyTag
	if err := c.putRecord(kindNamespace, m.Name, old, n); err != nil {
		return nil, c.failed(operation{}, err)
	}
	return okReply{}, nil
}

// listNamespaces is namespaces.list: those that were created, by name, from the pivot on.
func listNamespaces(c *call) (reply, error) {
	var m accesspb.NamespacesListRequest
	if err := c.decode(&m); err != nil {
		return nil, err
	}
	limit, err := listLimit(m.Limit)
	if err != nil {
		return nil, err
	}
	if err := c.unscoped(); err != nil {
		return nil, err
	}
	records, err := c.recordsFrom(kindNamespace, m.Pivot, limit)
	if err != nil {
		return nil, err
	}
	r := &namespacesReply{}
	for i := range records {
		var n namespace
		if err := json.Unmarshal(records[i].Value, &n); err != nil {
			return nil, err
		}
		r.items = append(r.items, &accesspb.Namespace{
			Name: records[i].Name, Description: n.Description, ApiKeyTag: n.Tag, CreatedAt: timestamppb.New(n.CreatedAt),
		})
	}
	return r, nil
}

// deleteNamespace is namespaces.delete. A namespace with queues stays.
func deleteNamespace(c *call) (reply, error) {
	var m accesspb.NamespacesDeleteRequest
	if err := c.decode(&m); err != nil {
		return nil, err
	}
	if err := checkNamespaceName(m.Name); err != nil {
		return nil, err
	}
	if strings.HasPrefix(m.Name, "_") {
		return nil, reservedNamespace(m.Name)
	}
	if err := c.unscoped(); err != nil {
		return nil, err
	}
	_, old, err := c.findNamespace(c.ctx, m.Name)
	if err != nil {
		return nil, c.failed(operation{}, err)
	}
	queues, err := c.engine.Queues(c.ctx)
	if err != nil {
		return nil, c.failed(operation{}, err)
	}
	for i := range queues {
		if namespaceOf(&queues[i]) == m.Name {
			return nil, namespaceHasQueues(m.Name)
		}
	}
	if err := c.engine.PutRecord(c.ctx, kindNamespace, m.Name, old, nil); err != nil {
		return nil, c.failed(operation{}, err)
	}
	return okReply{}, nil
}

// listLimit checks the limit of a list; zero is the default.
func listLimit(n int32) (int, error) {
	switch {
	case n < 0:
		return 0, errLimitNegative
	case n > maxListLimit:
		return 0, errLimitLarge
	case n == 0:
		return defaultListLimit, nil
	}
	return int(n), nil
}

// recordsFrom lists records by name, from the pivot on.
func (c *call) recordsFrom(kind, pivot string, limit int) ([]core.Record, error) {
	var out []core.Record
	if pivot != "" {
		v, err := c.engine.Record(c.ctx, kind, pivot)
		if err != nil {
			return nil, c.failed(operation{}, err)
		}
		if v != nil {
			out = append(out, core.Record{Kind: kind, Name: pivot, Value: v})
		}
	}
	if len(out) == limit {
		return out, nil
	}
	more, err := c.engine.ListRecords(c.ctx, core.ListRecordsParams{Kind: kind, After: pivot, Limit: limit - len(out)})
	if err != nil {
		return nil, c.failed(operation{}, err)
	}
	return append(out, more...), nil
}

// putRecord stores a value as JSON when what is there equals old.
func (c *call) putRecord(kind, name string, old []byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.engine.PutRecord(c.ctx, kind, name, old, b)
}

// namespacesReply answers namespaces.list.
type namespacesReply struct{ items []*accesspb.Namespace }

func (r *namespacesReply) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"items":[`...)
	for i, n := range r.items {
		if i > 0 {
			dst = append(dst, ',')
		}
		o := openObject(dst)
		o.str("name", n.Name)
		o.str("description", n.Description)
		o.time("created_at", n.CreatedAt.AsTime())
		o.str("api_key_tag", n.ApiKeyTag)
		dst = o.close()
	}
	return append(dst, "]}"...)
}

func (r *namespacesReply) message() proto.Message {
	return &accesspb.NamespacesListResponse{Items: r.items}
}
