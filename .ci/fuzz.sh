#!/usr/bin/env bash
# Runs each fuzz target of the module for FUZZTIME (default 5s).
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-5s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# A worker that is busy at the very end makes "go test -fuzz" fail with
# "context deadline exceeded" although no input failed (a fault of the tool on
# busy machines). Only that is tried again; a failing input is always a failure.
fuzz() { # fuzz TARGET PACKAGE
  local try
  for try in 1 2 3; do
    if go test -vet off -run '^$' -fuzz "^$1\$" -fuzztime "$time" -timeout 5m "$2" >"$log" 2>&1; then
      tail -n 1 "$log" | sed "s/^ok/ok $1/"
      return 0
    fi
    if grep -q 'Failing input written' "$log" || ! grep -q '^ *context deadline exceeded$' "$log"; then
      break
    fi
    echo "$1: try $try ended late, once more"
  done
  cat "$log"
  return 1
}

count=0
for pkg in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do
  grep -qs '^func Fuzz' "$(go list -f '{{.Dir}}' "$pkg")"/*_test.go || continue
  for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz'); do
    fuzz "$target" "$pkg"
    count=$((count + 1))
  done
done
echo "$count fuzz targets, $time each"
[ "$count" -gt 0 ]
