package target

import (
	"math"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
)

// Plain is a case's name without the part that says what it ran over.
func Plain(name string) string {
	parts := strings.Split(name, "/")
	parts = slices.DeleteFunc(parts, func(p string) bool { return slices.Contains([]string{Memory, SQLite, Postgres, remoteLabel}, p) })
	return strings.Join(parts, "/")
}

// Covers says whether a pattern is for a case of a plain name: * is any text without a slash, a last /... anything below.
func Covers(pattern, name string) bool {
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		n := strings.Count(below, "/") + 1
		parts := strings.Split(name, "/")
		if len(parts) < n {
			return false
		}
		pattern, name = below, strings.Join(parts[:n], "/")
	}
	ok, err := path.Match(escape(pattern), name)
	return ok && err == nil
}

// escape leaves * its meaning and takes that of [ and ? away, which names of cases contain.
func escape(pattern string) string { return strings.NewReplacer("[", `\[`, "?", `\?`).Replace(pattern) }

// listed reports whether a variable holds a pattern for a test.
func listed(variable, name string) bool {
	for pattern := range strings.SplitSeq(os.Getenv(variable), "\n") {
		if pattern != "" && Covers(pattern, Plain(name)) {
			return true
		}
	}
	return false
}

// onlyReplica chooses a replica for a test that one replica gets all requests of, below 0 for any other test.
func onlyReplica(name string) int {
	if listed(OneReplicaVariable, name) {
		return rand.IntN(math.MaxInt)
	}
	return -1
}
