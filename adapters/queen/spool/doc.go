// Package spool is a durable queue of records on local disk: first in, first out, written by many callers with one fsync for all of them, read
// by one.
//
// A spool is a directory. The file "id" names it for life, "lock" keeps a second process out, and the records lie in files named by the
// number of their first record. A record has a number that no other record of the spool ever has, so that a reader that notes the number up to
// which it has come can go on after a crash without losing or repeating one. A file goes when all of it has been read; the newest stays, so
// that numbers go on where they were.
//
// Each record is a length, a checksum over what follows, its number, and its bytes, which are encrypted where there is a key. What a crash left
// half-written at the end of a file was never confirmed to anybody and is cut off when the spool is opened.
package spool
