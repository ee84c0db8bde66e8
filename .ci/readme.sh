#!/usr/bin/env bash
# Runs the commands of README.md as a newcomer would paste them, and compares
# what they print with what README.md says they print.
#
# The convention for README.md:
#   - Blocks fenced as ```sh are run, in order, in one shell with "set -eu
#     -o pipefail", from the top of the repository. Blocks with any other
#     language (bash, text, json, none) are not.
#   - A block fenced as ```output that follows holds the exact standard output
#     of the sh block before it. In it "..." stands for any text, lines included.
#   - A line that begins with "go run ./cmd/leasehold serve" is started in the
#     background (its data in a temporary directory) and waited for until it is
#     ready; it is stopped at the end.
#   - The line "go test ./..." is skipped: CI runs it by itself.
#   - Names that begin with "rd_", and start, stop and matches, are this script's.
set -euo pipefail
cd "$(dirname "$0")/.."
rd_readme=${1:-README.md}
rd_ready=${LEASEHOLD_README_READY:-http://127.0.0.1:8400/readyz}
rd_work=$(mktemp -d)
rd_server=""
stop() {
  if [ -n "$rd_server" ]; then
    kill -- "-$rd_server" 2>/dev/null || true
    wait "$rd_server" 2>/dev/null || true
  fi
  rm -rf "$rd_work"
}
trap stop EXIT
trap 'echo "a command of block ${rd_block##*/} failed" >&2' ERR

# One file per block: 001.sh, and 001.out for the output it must show.
awk -v dir="$rd_work" '
  /^```/ && !inside {
    inside = 1; file = ""
    lang = substr($0, 4); sub(/[ \t].*/, "", lang)
    if (lang == "sh") { n++; file = sprintf("%s/%03d.sh", dir, n) }
    else if (lang == "output" && n > 0) file = sprintf("%s/%03d.out", dir, n)
    if (file != "") printf "" > file
    next
  }
  /^```/ && inside { inside = 0; if (file != "") close(file); next }
  inside && file != "" { print >> file }
' "$rd_readme"

start() { # start COMMAND...: a server in the background, until it is ready
  if curl -s -o /dev/null "$rd_ready"; then
    echo "another server answers at $rd_ready already" >&2
    return 1
  fi
  # A process group of its own: "go run" does not pass a SIGTERM on.
  set -m
  LEASEHOLD_DATA_DIR="$rd_work/data" "$@" >"$rd_work/server.log" 2>&1 &
  rd_server=$!
  set +m
  for _ in $(seq 1500); do
    if curl -fsS -o /dev/null "$rd_ready" 2>/dev/null; then
      return 0
    fi
    kill -0 "$rd_server" 2>/dev/null || break
    sleep 0.2
  done
  echo "the server did not become ready:" >&2
  cat "$rd_work/server.log" >&2
  return 1
}

matches() { # matches ACTUAL EXPECTED, where "..." in EXPECTED is any text
  local literal pattern="" rest=$2
  while [[ $rest == *"..."* ]]; do
    literal=${rest%%"..."*}
    rest=${rest#*"..."}
    pattern+=$(printf '%s' "$literal" | sed 's/[][\\*?()|!@+]/\\&/g')"*"
    # A newline at the end of the literal is lost in the substitution above.
    case $literal in *$'\n') pattern=${pattern%\*}$'\n*' ;; esac
  done
  pattern+=$(printf '%s' "$rest" | sed 's/[][\\*?()|!@+]/\\&/g')
  # shellcheck disable=SC2053 # the right side is meant as a pattern
  [[ $1 == $pattern ]]
}

rd_blocks=0 rd_compared=0
for rd_block in "$rd_work"/*.sh; do
  [ -e "$rd_block" ] || { echo "$rd_readme has no sh block" >&2; exit 1; }
  sed -E -e '/^go test \.\/\.\.\.$/d' -e 's/^go run \.\/cmd\/leasehold serve/start &/' "$rd_block" >"$rd_block.run"
  printf -- '-- block %s\n' "$(basename "$rd_block" .sh)"
  sed 's/^/   /' "$rd_block.run"
  # Sourced and not run, so that a block can use variables of an earlier one.
  # shellcheck disable=SC1090 # the file is made above
  source "$rd_block.run" >"$rd_work/actual"
  rd_blocks=$((rd_blocks + 1))
  if [ -f "${rd_block%.sh}.out" ]; then
    if ! matches "$(<"$rd_work/actual")" "$(<"${rd_block%.sh}.out")"; then
      echo "the output differs from $rd_readme:" >&2
      diff "${rd_block%.sh}.out" "$rd_work/actual" >&2 || true
      exit 1
    fi
    rd_compared=$((rd_compared + 1))
  fi
done
echo "$rd_blocks blocks run, $rd_compared outputs compared"
