package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStepsRunInReverseAndAllOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var order []string
		s := &steps{log: slog.New(slog.NewTextHandler(&log, nil))}
		note := func(name string, err error) {
			s.push(name, time.Second, func(context.Context) error { order = append(order, name); return err })
		}
		note("store", nil)
		note("engine", errors.New("broke"))
		s.push("stuck", time.Second, func(context.Context) error { <-t.Context().Done(); return nil })
		note("listener", nil)
		start := time.Now()
		err := s.unwind(t.Context())
		assert.Equal(t, []string{"listener", "engine", "store"}, order)
		require.ErrorContains(t, err, "engine: broke")
		require.ErrorContains(t, err, "stuck: did not end within 1s")
		assert.Less(t, time.Since(start), 2*time.Second)
		assert.Contains(t, log.String(), "step=engine")
		assert.Contains(t, log.String(), "step=stuck")
		require.NoError(t, s.unwind(t.Context()), "nothing is left to undo")
	})
}
