#!/usr/bin/env bash
# Runs compose.yaml with the images of .ci/docker.sh: what one gateway takes,
# the other one gives, and a restart of everything loses nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
export LEASEHOLD_IMAGE=leasehold POSTGRES_IMAGE=leasehold-postgres
# Other ports than the usual ones, which the README's server takes.
export QUEEN_PORT_1=16632 QUERATOR_PORT_1=12319 CFQUEUES_PORT_1=18790 ADMIN_PORT_1=18400
export QUEEN_PORT_2=17632 QUERATOR_PORT_2=13319 CFQUEUES_PORT_2=19790 ADMIN_PORT_2=19400
compose() {
  if docker compose version >/dev/null 2>&1; then
    docker compose -p leasehold-ci "$@"
  else
    docker-compose -p leasehold-ci "$@"
  fi
}
trap 'compose down -v -t 5 >/dev/null 2>&1' EXIT
ready() {
  for port in 18400 19400; do
    for _ in $(seq 240); do
      curl -fsS -o /dev/null "http://127.0.0.1:$port/readyz" 2>/dev/null && continue 2
      sleep 0.25
    done
    compose logs --tail 30 >&2
    echo "the gateway at port $port is not ready" >&2
    return 1
  done
}
push() { # push PORT ID
  curl -fsS "http://127.0.0.1:$1/api/v1/push" -d "{\"items\":[{\"queue\":\"q\",\"payload\":1,\"transactionId\":\"$2\"}]}" | grep -q '"status":"queued"'
}
pop() { # pop PORT ID
  curl -fsS "http://127.0.0.1:$1/api/v1/pop/queue/q?autoAck=true" | grep -q "\"transactionId\":\"$2\""
}
compose up -d --no-build
ready
push 16632 one && pop 17632 one
push 17632 two && pop 16632 two
push 16632 three
compose restart -t 40
ready
pop 17632 three
echo "compose: two gateways share their queues, and a restart loses nothing"
