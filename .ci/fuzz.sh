#!/usr/bin/env bash
# Runs each fuzz target of the module for FUZZTIME (default 5s).
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-5s}
count=0
for pkg in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do
  grep -qs '^func Fuzz' "$(go list -f '{{.Dir}}' "$pkg")"/*_test.go || continue
  for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
    go test -vet off -run "^$" -fuzz "^$target\$" -fuzztime "$time" -timeout 5m "$pkg"
    count=$((count + 1))
  done
done
echo "$count fuzz targets, $time each"
[ "$count" -gt 0 ]
