#!/usr/bin/env bash
# Fails when the program links a module that is there for tests only, or when
# it does not build without C.
set -euo pipefail
cd "$(dirname "$0")/.."
deps=$(go list -deps -f '{{with .Module}}{{.Path}}{{end}}' ./cmd/leasehold | sort -u)
bad=$(grep -E 'testcontainers|kapetan-io/querator|cloudflare-go|porcupine|pgregory.net/rapid|goleak|stretchr/testify' <<<"$deps" || true)
if [ -n "$bad" ]; then
  echo "cmd/leasehold links modules that are for tests only:" >&2
  echo "$bad" >&2
  exit 1
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
CGO_ENABLED=0 go build -trimpath -o "$out/leasehold" ./cmd/leasehold
"$out/leasehold" version
echo "no test-only module among $(wc -l <<<"$deps"); static binary of $(wc -c <"$out/leasehold") bytes"
