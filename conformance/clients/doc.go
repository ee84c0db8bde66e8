// Package clients runs other people's clients against the real command as a child process: the
// Go and JavaScript libraries, the command line tool and the Terraform provider's requests of
// Cloudflare Queues, and Querator's Go client, each over SQLite and PostgreSQL. The clients are
// given another base URL and nothing else. Time moves through the control listener.
//
// What a test needs beside Go it says when it is missing: PostgreSQL (see testenv), node and npm
// with a registry. It then skips, and fails when CI=true. The npm packages of testdata/npm are
// installed once into the user's cache folder.
//
// The environment says how long and how hard the tests run:
//
//	LEASEHOLD_RACE_TIME     how long TestPullRace runs, as a Go duration (default 5s)
//	LEASEHOLD_RACE_SERVERS  how many servers TestPullRace starts on one PostgreSQL (default 2)
//	LEASEHOLD_BINARY        a leasehold binary to run instead of building one
package clients
