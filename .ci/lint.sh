#!/usr/bin/env bash
# Runs golangci-lint in the pinned version, building it on first use.
# usage: .ci/lint.sh [fmt]
set -euo pipefail
cd "$(dirname "$0")/.."
version=v2.15.0

export GOTOOLCHAIN=local
tools=${LEASEHOLD_TOOLS:-$(go env GOPATH)/leasehold-tools}
lint=$tools/golangci-lint-$version
if [ ! -x "$lint" ]; then
  mkdir -p "$tools"
  GOBIN=$tools/build-$$ go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version"
  mv "$tools/build-$$/golangci-lint" "$lint"
  rmdir "$tools/build-$$"
fi
if [ "${1:-}" = fmt ]; then
  exec "$lint" fmt ./...
fi
exec "$lint" run --allow-parallel-runners ./...
