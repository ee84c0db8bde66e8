#!/bin/sh
# Makes the cluster on the first start, then becomes the server. Arguments are
# as for the public image: "postgres" and its flags, or flags alone.
set -eu
: "${PGDATA:=/var/lib/postgresql/data}"
: "${POSTGRES_USER:=postgres}"
: "${POSTGRES_DB:=$POSTGRES_USER}"
: "${POSTGRES_PASSWORD:=}"
: "${POSTGRES_HOST_AUTH_METHOD:=}"
: "${POSTGRES_INITDB_ARGS:=}"
case "${1:-}" in
  -* | "") set -- postgres "$@" ;;
esac
[ "$1" = postgres ] || exec "$@"

if [ ! -s "$PGDATA/PG_VERSION" ]; then
  if [ -z "$POSTGRES_PASSWORD" ] && [ "$POSTGRES_HOST_AUTH_METHOD" != trust ]; then
    echo "set POSTGRES_PASSWORD, or POSTGRES_HOST_AUTH_METHOD=trust to go without" >&2
    exit 1
  fi
  method=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}
  # initdb takes the password from a file, which only this user can read.
  secret=$(mktemp)
  printf '%s\n' "${POSTGRES_PASSWORD:-unused}" >"$secret"
  # shellcheck disable=SC2086 # the arguments are meant to be split
  initdb -D "$PGDATA" -U "$POSTGRES_USER" --pwfile "$secret" --auth-local trust --auth-host "$method" \
    -E UTF8 --locale=C --no-instructions $POSTGRES_INITDB_ARGS
  rm -f "$secret"
  printf 'host all all all %s\n' "$method" >>"$PGDATA/pg_hba.conf"
  printf "listen_addresses = '*'\n" >>"$PGDATA/postgresql.conf"
  if [ "$POSTGRES_DB" != postgres ]; then
    # Without a TCP port, so that nobody takes this server for the real one.
    pg_ctl -D "$PGDATA" -w -o "-c listen_addresses=''" start >/dev/null
    psql -U "$POSTGRES_USER" -d postgres -q -v ON_ERROR_STOP=1 -v name="$POSTGRES_DB" <<'SQL'
create database :"name";
SQL
    pg_ctl -D "$PGDATA" -w -m fast stop >/dev/null
  fi
fi
exec "$@" -D "$PGDATA"
