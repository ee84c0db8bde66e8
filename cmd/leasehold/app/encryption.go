package app

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/leasehold/leasehold/core"
	"github.com/leasehold/leasehold/store/sealed"
)

// The variables with the keys of payloads at rest. There are no flags for
// them, since every user of a machine sees flags.
const (
	// EnvEncryptionKey holds the key to seal with, 64 hex digits. The original
	// server's name for it stands below.
	EnvEncryptionKey = "LEASEHOLD_ENCRYPTION_KEY"
	// EnvEncryptionOldKeys holds keys to read with, separated by commas.
	EnvEncryptionOldKeys = "LEASEHOLD_ENCRYPTION_OLD_KEYS"
)

// EncryptionConfig says how payloads of encrypted queues are stored.
type EncryptionConfig struct {
	AllowPlaintext bool `env:"LEASEHOLD_ALLOW_PLAINTEXT" help:"Without LEASEHOLD_ENCRYPTION_KEY, accept encryptionEnabled on queues and store their payloads as they are. Default: such calls are refused."`

	// EncryptionKey and EncryptionOldKeys are read from the environment alone.
	EncryptionKey     string   `kong:"-"`
	EncryptionOldKeys []string `kong:"-"`
}

// readKeys takes the keys from the environment.
func (c *EncryptionConfig) readKeys() {
	c.EncryptionKey = strings.TrimSpace(os.Getenv(EnvEncryptionKey))
	for k := range strings.SplitSeq(os.Getenv(EnvEncryptionOldKeys), ",") {
		if k = strings.TrimSpace(k); k != "" {
			c.EncryptionOldKeys = append(c.EncryptionOldKeys, k)
		}
	}
}

// canEncrypt reports whether a queue's encryption can be switched on.
func (c *EncryptionConfig) canEncrypt() bool { return c.EncryptionKey != "" || c.AllowPlaintext }

// ring makes the keys; its error does not show them.
func (c *EncryptionConfig) ring() (*sealed.Ring, error) {
	var key *sealed.Key
	var err error
	if c.EncryptionKey != "" {
		if key, err = sealed.ParseKey(c.EncryptionKey); err != nil {
			return nil, fmt.Errorf("%s: %w", EnvEncryptionKey, err)
		}
	}
	old := make([]*sealed.Key, 0, len(c.EncryptionOldKeys))
	for i, text := range c.EncryptionOldKeys {
		k, err := sealed.ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("%s: key %d: %w", EnvEncryptionOldKeys, i+1, err)
		}
		old = append(old, k)
	}
	return sealed.NewRing(key, old...), nil
}

// seal puts the encryption over a store; the keys were checked.
func (c *EncryptionConfig) seal(s core.Store, logger *slog.Logger) core.Store {
	ring, _ := c.ring()
	return sealed.Wrap(s, sealed.Options{Keys: ring, AllowPlaintext: c.AllowPlaintext, Logger: logger})
}
