// Package fleet runs the server in containers as its users do: PostgreSQL and
// any number of gateways on a network of their own, or one gateway on SQLite.
// It kills, pauses, cuts off and restarts each of them.
//
// A gateway shares the network of a second container, its pod, whose ports are
// published on 127.0.0.1. So its addresses stay the same whatever happens to
// the gateway, and its control listener, which is bound to loopback, can be
// reached through the pod's relay. The gateway reaches its database through the
// relay too, which is where the network between them is cut.
//
//	CONFORMANCE_POSTGRES_IMAGE   default postgres:17
//	CONFORMANCE_GATEWAY_IMAGE    default: built from the tree
//
// It needs a Docker daemon and the docker command. Where no image can be pulled,
// deploy/postgres-image/build.sh makes one from the machine's own server.
package fleet
