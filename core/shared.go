package core

import (
	"context"

	"github.com/google/uuid"
)

// Shared is an optional power: that of a store which several gateways use at once. An engine over one follows what the others
// commit, and takes the store's clock, since theirs may differ.
type Shared interface {
	// Follow returns what other gateways committed since the cursor, each commit once and none left out; "" begins now.
	Follow(ctx context.Context, since string) (Followed, error)
	// Notify calls f, coalesced, after commits of other gateways, until ctx ends or it cannot listen; f must not block. What is committed while
	// nobody awaits it may be told late, at the next Await. An engine looks at least every second whether or not f is called.
	Notify(ctx context.Context, f func()) error
	// Await has other gateways tell this one of what they commit in the next few seconds, and of what they kept to themselves so far. It costs
	// little to say it again.
	Await()
	// ReadAll reads as Log.Read does of each of several partitions, at once.
	ReadAll(ctx context.Context, ps []ReadParams) ([][]Message, error)
	// Leased returns the rows in which an exclusive lease is stored as leased, whatever its deadline.
	Leased(ctx context.Context, lease uuid.UUID) ([]RowKey, error)
	// Recalls reports whether commits may overlap: the store remembers what it wrote, lets some be decided by that, and nothing of it is held
	// up by another one that is on its way.
	Recalls() bool
	// Alone reports that no other gateway was heard of for a while. One may be there all the same.
	Alone() bool
	// Clock returns the database's clock: the same at every gateway within the time of a round trip.
	Clock() Clock
}

// Followed is what Shared.Follow found.
type Followed struct {
	// Next is the cursor for the next call.
	Next string
	// Lost tells that the store cannot continue from the cursor (it was pruned, or another database has taken over): everything
	// has to be read again. The other fields are then empty.
	Lost bool
	// Gone are partitions that were removed while their queue stays; those of deleted queues may be among them.
	Gone []PartitionKey
	// Logs are the partitions that are new or whose log changed, as they are now; those that are gone are missing.
	Logs []PartitionLog
	// Rows are the (partition, group) rows that changed.
	Rows []RowKey
	// Queues are the queues that were created, configured or deleted, or whose registrations changed.
	Queues []uuid.UUID
	// Catalog is what TxEntries.Catalog said at the same moment.
	Catalog int64
}
