// Package core holds the queue model and its engine; it knows no protocol's wire format and no database.
//
// A queue holds partitions. A partition is an ordered log: offsets are dense from 1, and a segment is what one
// commit appended to it. A consumer group's delivery state on a partition is one row: the frontier, which is the
// last offset that any claim has reached, and batches, which are ranges of offsets of which some are pending. A
// batch is leased (exclusively or shared, until a deadline), waiting (it came back and may be claimed from its due
// time on) or empty (it marks offsets above the frontier as out of play). The invariant: at or below the frontier,
// whatever is not pending in a batch is settled; above it, whatever no batch covers is waiting its turn. Nothing is
// stored per message and group, and the cost of a claim depends neither on its size nor on the backlog.
//
// Turns order what waits. A message's first turn is its offset; what comes back to the tail draws a new one above
// every turn before it. Exclusive claims (Queen) keep own turns, so what failed is delivered again first and in
// order; shared claims (Querator, Cloudflare) send it to the tail.
//
// Engine holds every rule over a Store, which is dumb and transactional. One goroutine, the dispatcher, owns what
// the engine keeps in memory and fuses what arrives while a commit runs into the next one.
//
// The files: edit*.go change one row inside an Update and are pure; pass.go and plan.go build an Update from
// settlements and waiting claims; inbox.go is the dispatcher; push.go, dedup.go, claim.go, ack.go, settle.go,
// transact.go, sweep.go and stats.go hold one operation each.
package core
