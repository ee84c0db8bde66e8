// Package blackbox tests the server from outside: over HTTP, with light clients of the three
// protocols, against the real command as a child process or against the same handlers in this
// process. Nothing in it looks into the server; what it expects is what a client may rely on.
//
// The environment says how long and how hard the tests run:
//
//	LEASEHOLD_KILL_ROUNDS  how often TestKill kills the server (default 2)
//	LEASEHOLD_MIXED_TIME   how long TestMixed runs, as a Go duration (default 3s)
//	LEASEHOLD_CHURN_TIME   how long TestChurn runs (default 2s)
//	LEASEHOLD_SEED         the seed of everything random (default: from the clock, and printed)
//	LEASEHOLD_BINARY       a leasehold binary to run instead of building one
//	LEASEHOLD_BUILD_FLAGS  flags for "go build" of the server, for example -race
//
// The server inherits the environment, so LEASEHOLD_STORE=memory: runs what needs no restart over
// the memory store.
package blackbox
