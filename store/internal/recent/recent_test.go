package recent_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/store/internal/recent"
)

func TestTheLastCommitsAreRemembered(t *testing.T) {
	var c recent.Commits
	require.False(t, c.Has(uuid.New()))
	ids := make([]uuid.UUID, 2*recent.Remembered+1)
	for i := range ids {
		ids[i] = uuid.New()
		c.Add(ids[i])
		require.True(t, c.Has(ids[i]))
	}
	require.False(t, c.Has(ids[recent.Remembered]), "one more than are remembered")
	require.True(t, c.Has(ids[recent.Remembered+1]))
}
