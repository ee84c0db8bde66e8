#!/usr/bin/env bash
# Installs and starts Docker where there is none, and builds the images that
# cannot be pulled everywhere: PostgreSQL from the machine's own server, and
# the server's own by its Dockerfile.
set -euo pipefail
cd "$(dirname "$0")/.."
state=${LEASEHOLD_CI_STATE:-/tmp/leasehold-ci}
export DOCKER_BUILDKIT=0
mkdir -p "$state"

install() {
  local missing=()
  command -v dockerd >/dev/null || missing+=(docker.io iptables)
  command -v docker-compose >/dev/null || docker compose version >/dev/null 2>&1 || missing+=(docker-compose)
  [ -x /usr/bin/busybox ] || command -v busybox >/dev/null || missing+=(busybox-static)
  compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || missing+=(postgresql)
  [ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
  if [ "${#missing[@]}" -gt 0 ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
  fi
}

start() {
  install
  if docker info >/dev/null 2>&1; then
    return
  fi
  setsid dockerd >"$state/dockerd.log" 2>&1 </dev/null &
  echo $! >"$state/dockerd.pid"
  for _ in $(seq 120); do
    docker info >/dev/null 2>&1 && return
    sleep 0.5
  done
  echo "dockerd did not start:" >&2
  tail -n 30 "$state/dockerd.log" >&2
  return 1
}

images() {
  deploy/postgres-image/build.sh leasehold-postgres
  .ci/go-image.sh leasehold-go
  docker build -q --build-arg GO_IMAGE=leasehold-go --build-arg VERSION=dev-build -t leasehold . >/dev/null
  echo "leasehold: $(docker image inspect -f '{{.Size}}' leasehold) bytes, $(docker run --rm leasehold version)"
}

# stop ends the daemon that start has started, and no other.
stop() {
  if [ -s "$state/dockerd.pid" ]; then
    kill "$(<"$state/dockerd.pid")" 2>/dev/null || true
    rm -f "$state/dockerd.pid"
  fi
}

case ${1:-} in
  start | images | stop) "$1" ;;
  *) sed -n 's/^# usage: //p' "$0" >&2; exit 2 ;;
esac
