// Package bench measures a server through its protocol, next to what the
// machine can do at that moment.
//
// A figure means little without its floors, which run in turns with the load:
// the HTTP floor answers the same requests from a process that stores nothing,
// and the durability floor writes the same payload bytes with one
// group-committing writer. Ratios are taken pair by pair, so that a neighbour
// on the machine who comes and goes does not end up in them.
//
// The generator shares the machine with the server, so it is kept light:
// requests are prepared once and changed in place, answers are searched for
// the few ids that a settlement needs, and nothing is allocated per request.
package bench
