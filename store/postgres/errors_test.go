package postgres

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/core"
)

// A server that does not answer ends an attempt to connect by the attempt's own deadline: the caller has not gone, and can try again.
func TestServerThatDoesNotAnswerIsAway(t *testing.T) {
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	config, err := pgx.ParseConfig("postgres://u@" + silent.Addr().String() + "/d?sslmode=disable")
	require.NoError(t, err)
	config.ConnectTimeout = time.Millisecond
	_, err = pgx.ConnectConfig(t.Context(), config)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, core.CodeUnavailable, core.CodeOf(classify("update", err)))

	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err = pgx.ConnectConfig(gone, config)
	require.Error(t, err)
	assert.Equal(t, core.CodeCanceled, core.CodeOf(classify("update", err)))
}
