// Package target says what the tests of an adapter run against. The adapters'
// test harnesses ask it, so that the same tables run in process over every
// store, against containers and against any address.
//
//	CONFORMANCE_STORE             memory (default), sqlite or postgres: the store of tests in process
//	CONFORMANCE_TARGET_QUEEN      base URL of a server instead; several, separated by commas, are
//	CONFORMANCE_TARGET_QUERATOR   replicas, of which each request goes to one at random. A URL of
//	CONFORMANCE_TARGET_CFQUEUES   Querator may have a generation in front: L1=http://127.0.0.1:2322
//	CONFORMANCE_CONTROL           control listeners that move the replicas' clocks; without them time
//	                              passes by itself, and a test that would wait long is skipped
//	CONFORMANCE_OPERATOR          base URL of who runs the replicas; POST /restart restarts them
//	CONFORMANCE_CASES             file that gets the name of every test that asked this package
//	CONFORMANCE_ANSWER_WITHIN     how long a server may take for one answer, default 15s
//	CONFORMANCE_ONE_REPLICA       patterns, a line each, of tests whose requests all go to the same replica,
//	                              which one is chosen at random
//	CONFORMANCE_LOOK_FIRST        patterns, a line each, of tests before each of whose requests every replica looks at
//	                              what the others did
//	CONFORMANCE_BLANKS_VARY       1 for a server whose JSON has blanks that vary from build to build (protobuf's runtime
//	                              in Go): they are not compared
//
// A remote server is shared by all tests, so each test finds it with every
// queue deleted and, where clocks can be moved, at coretest.Start.
package target
