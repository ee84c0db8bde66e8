// Package token keeps the tokens that guard a server: made and revoked through the
// admin listener, asked for by the protocols' listeners.
//
// A token's text is shown once, when it is made. What is stored is a keyed hash of it,
// whose first half is the token's id, and what the token may do. So one record is the
// whole token: it is there or it is not, at every server of the store.
//
// The first token that is made switches authentication on, and it stays on when the
// last one is revoked: a server must not open because somebody tidied up.
package token
