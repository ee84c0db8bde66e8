package queen_test

import (
	"testing"

	"github.com/leasehold/leasehold/conformance/testenv"
)

// TestMain stops the database that a test may have started.
func TestMain(m *testing.M) { testenv.Main(m) }
