// Package sealed encrypts payloads at rest, over any store and below every
// protocol: a queue whose encryption is switched on holds no payload in the
// clear in the store's file, its write-ahead log or a dump of its database,
// and every protocol reads it as any other queue.
//
// What is sealed is the payload alone, message by message, in the log, in the
// schedule of delayed messages and in dead letters. Names, ids, transaction
// ids, labels, sizes and times stay readable, since claims, deduplication and
// counts work on them without a key.
//
// A sealed payload is
//
//	version 1 · key id (4) · nonce (12) · AES-256-GCM of the payload (n + 16)
//
// under a key of its own, derived from the server's key and the message's id,
// so that no number of messages wears the server's key out, and bound to that
// id, so that a payload moved to another message does not open. The record's
// content type tells that it is sealed; whether a queue's option is on is asked
// when something is written only. A queue can therefore be switched either way
// at any time, and a key can be replaced while the old one is kept for reading.
package sealed
