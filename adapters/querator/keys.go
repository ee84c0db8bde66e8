package querator

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	accesspb "github.com/leasehold/leasehold/adapters/querator/pb/access"
	"github.com/leasehold/leasehold/core"
)

// The kinds of records that hold API keys: what is known of a key by its id, and its id by the
// SHA-256 of its text. The text itself is stored nowhere.
const (
	kindKey     = "querator.key"
	kindKeyHash = "querator.key_hash"
)

// apiKey is what is stored of a key.
type apiKey struct {
	User      string    `json:"user,omitempty"`
	Name      string    `json:"name"`
	Prefix    string    `json:"prefix"`
	Hash      string    `json:"hash"`
	Scope     string    `json:"scope,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// The bounds of a key's labels, in bytes, and of its secret part, in base-62 digits.
const (
	maxKeyName   = 128
	maxUserID    = 256
	maxKeyTag    = 16
	secretDigits = 43
	prefixDigits = 8
)

// checkTag checks the tag that stands in the text of keys.
func checkTag(what, tag string) error {
	if len(tag) > maxKeyTag {
		return failWith(codeBadRequest, what, " is invalid; cannot be greater than 16 characters")
	}
	for i := range len(tag) {
		if c := tag[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return failWith(codeBadRequest, what, " is invalid; must be lowercase alphanumeric only")
		}
	}
	return nil
}

// createKey is apikeys.create. The key is in this answer and never again.
func createKey(c *call) (reply, error) {
	var m accesspb.KeysCreateRequest
	if err := c.decode(&m); err != nil {
		return nil, err
	}
	n, err := c.checkKey(&m)
	if err != nil {
		return nil, err
	}
	if err := c.unscoped(); err != nil {
		return nil, err
	}
	tag := m.KeyTag
	if tag == "" {
		tag = n.Tag
	}
	if tag == "" {
		tag = "live"
	}
	secret := newSecret()
	key := "qtr-" + tag + "-" + secret
	k := apiKey{
		User: m.UserId, Name: m.Name, Prefix: key[:len(key)-len(secret)+prefixDigits], Hash: hashKey(key), Scope: m.NamespaceScope,
		CreatedAt: c.engine.Now().Std(),
	}
	if m.ExpiresAt != nil {
		k.ExpiresAt = m.ExpiresAt.AsTime()
	}
	id := core.NewMessageID(c.engine.Now()).String()
	// The hash without its key is harmless; a key without its hash would be listed and not work.
	if err := c.putRecord(kindKeyHash, k.Hash, nil, id); err != nil {
		return nil, c.failed(operation{}, err)
	}
	if err := c.putRecord(kindKey, id, nil, k); err != nil {
		return nil, c.failed(operation{}, err)
	}
	c.guard.forget()
	return &keyReply{&accesspb.KeysCreateResponse{Id: id, Key: key, Prefix: k.Prefix}}, nil
}

// checkKey makes the checks of a key to be made, and returns the namespace that it is for.
func (c *call) checkKey(m *accesspb.KeysCreateRequest) (n namespace, err error) {
	switch {
	case len(m.UserId) > maxUserID:
		return n, tooLong("user_id", "256")
	case strings.TrimSpace(m.Name) == "":
		return n, cannotBeEmpty("name")
	case len(m.Name) > maxKeyName:
		return n, tooLong("name", "128")
	}
	if m.ExpiresAt != nil {
		if err := m.ExpiresAt.CheckValid(); err != nil {
			return n, undecodable(err)
		}
	}
	if err := checkTag("key_tag", m.KeyTag); err != nil {
		return n, err
	}
	if m.NamespaceScope == "" {
		return n, nil
	}
	n, _, err = c.findNamespace(c.ctx, m.NamespaceScope)
	if err != nil {
		return n, c.failed(operation{}, err)
	}
	return n, nil
}

// newSecret returns the secret part of a key: 43 base-62 digits, 256 bits.
func newSecret() string {
	out := make([]byte, 0, secretDigits)
	var b [64]byte
	for len(out) < secretDigits {
		_, _ = rand.Read(b[:])
		for _, v := range b {
			// 248 is the largest multiple of 62 in a byte: the rest would favor some digits.
			if v < 248 && len(out) < secretDigits {
				out = append(out, base62Alphabet[v%62])
			}
		}
	}
	return string(out)
}

func hashKey(key string) string {
	h := sha256.Sum256([]byte(key))
	return hex.EncodeToString(h[:])
}

// listKeys is apikeys.list: what is known of the keys, of one user where one is named, by id.
func listKeys(c *call) (reply, error) {
	var m accesspb.KeysListRequest
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
	r := &keysReply{}
	for pivot := m.Pivot; len(r.items) < limit; {
		records, err := c.recordsFrom(kindKey, pivot, limit+1)
		if err != nil {
			return nil, err
		}
		for i := range records {
			var k apiKey
			if err := json.Unmarshal(records[i].Value, &k); err != nil {
				return nil, err
			}
			if (m.UserId == "" || m.UserId == k.User) && len(r.items) < limit {
				r.items = append(r.items, k.shown(records[i].Name))
			}
		}
		if len(records) <= limit {
			break
		}
		// The last one is read again as the first of the next stretch, and shown there only.
		last := records[limit].Name
		if n := len(r.items); n > 0 && r.items[n-1].Id == last {
			r.items = r.items[:n-1]
		}
		pivot = last
	}
	return r, nil
}

// shown is what a list says of a key.
func (k *apiKey) shown(id string) *accesspb.Key {
	out := &accesspb.Key{
		Id: id, UserId: k.User, Name: k.Name, Prefix: k.Prefix, NamespaceScope: k.Scope, CreatedAt: timestamppb.New(k.CreatedAt),
	}
	if !k.ExpiresAt.IsZero() {
		out.ExpiresAt = timestamppb.New(k.ExpiresAt)
	}
	return out
}

// deleteKey is apikeys.delete. The key ends here at once, and on other servers of the store when
// they next look it up.
func deleteKey(c *call) (reply, error) {
	var m accesspb.KeysDeleteRequest
	if err := c.decode(&m); err != nil {
		return nil, err
	}
	if m.Id == "" {
		return nil, cannotBeEmpty("id")
	}
	if err := c.unscoped(); err != nil {
		return nil, err
	}
	k, old, err := c.findKey(c.ctx, m.Id)
	if err != nil {
		return nil, c.failed(operation{}, err)
	}
	if old == nil {
		return nil, noKey(m.Id)
	}
	if err := c.engine.PutRecord(c.ctx, kindKey, m.Id, old, nil); err != nil {
		return nil, c.failed(operation{}, err)
	}
	c.guard.forget()
	hash, err := c.engine.Record(c.ctx, kindKeyHash, k.Hash)
	if err == nil && hash != nil {
		err = c.engine.PutRecord(c.ctx, kindKeyHash, k.Hash, hash, nil)
	}
	if err != nil {
		return nil, c.failed(operation{}, err)
	}
	return okReply{}, nil
}

// findKey returns a key by its id with the bytes that it is stored as; nil bytes are no such key.
func (s *server) findKey(ctx context.Context, id string) (k apiKey, stored []byte, err error) {
	if _, err := uuid.Parse(id); err != nil {
		return k, nil, nil //nolint:nilerr // what is no id names no key
	}
	if stored, err = s.engine.Record(ctx, kindKey, id); err != nil || stored == nil {
		return k, nil, err
	}
	return k, stored, json.Unmarshal(stored, &k)
}

// keyReply answers apikeys.create.
type keyReply struct{ *accesspb.KeysCreateResponse }

func (r *keyReply) appendJSON(dst []byte) []byte {
	o := openObject(dst)
	o.str("id", r.Id)
	o.str("key", r.Key)
	o.str("prefix", r.Prefix)
	return o.close()
}

func (r *keyReply) message() proto.Message { return r.KeysCreateResponse }

// keysReply answers apikeys.list.
type keysReply struct{ items []*accesspb.Key }

func (r *keysReply) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"items":[`...)
	for i, k := range r.items {
		if i > 0 {
			dst = append(dst, ',')
		}
		o := openObject(dst)
		o.str("id", k.Id)
		o.str("user_id", k.UserId)
		o.str("name", k.Name)
		o.str("prefix", k.Prefix)
		o.str("namespace_scope", k.NamespaceScope)
		o.time("created_at", k.CreatedAt.AsTime())
		if k.ExpiresAt != nil {
			o.time("expires_at", k.ExpiresAt.AsTime())
		}
		dst = o.close()
	}
	return append(dst, "]}"...)
}

func (r *keysReply) message() proto.Message { return &accesspb.KeysListResponse{Items: r.items} }
