#!/usr/bin/env bash
# Makes a small PostgreSQL image from the server that is installed on this
# machine, for places where no image can be pulled. It takes the environment of
# the public image: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB,
# POSTGRES_HOST_AUTH_METHOD, POSTGRES_INITDB_ARGS and PGDATA.
# usage: deploy/postgres-image/build.sh [IMAGE]
# needs: docker, and Debian's packages postgresql and busybox-static
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
image=${1:-leasehold-postgres}

server=$(find /usr/lib/postgresql -path '*/bin/postgres' 2>/dev/null | sort -V | tail -n 1)
[ -n "$server" ] || { echo "no PostgreSQL server under /usr/lib/postgresql" >&2; exit 1; }
bin=$(dirname "$server")
version=$(basename "$(dirname "$bin")")
busybox=$(command -v busybox) || { echo "busybox-static is not installed" >&2; exit 1; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,etc,tmp,var/run/postgresql,usr/local/bin,usr/share,var/lib/postgresql/data}
cp "$busybox" "$root/bin/busybox"
for tool in sh cat chmod cp date echo env head id kill ls mkdir mktemp mv printf ps rm sed sleep tail test touch true; do
  ln -s busybox "$root/bin/$tool"
done

# The programs, what they load at run time, and the libraries of all of them.
mkdir -p "$root$bin" "$root/usr/lib/postgresql/$version/lib" "$root/usr/share/postgresql"
cp "$bin"/{postgres,initdb,pg_ctl,pg_isready,psql} "$root$bin/"
for tool in postgres initdb pg_ctl pg_isready psql; do
  ln -s "$bin/$tool" "$root/usr/local/bin/$tool"
done
for library in plpgsql dict_snowball pgoutput libpqwalreceiver; do
  cp "$(dirname "$bin")/lib/$library.so" "$root/usr/lib/postgresql/$version/lib/"
done
cp -r "/usr/share/postgresql/$version" "$root/usr/share/postgresql/"
rm -rf "$root/usr/share/postgresql/$version/man"
cp -r /usr/share/zoneinfo "$root/usr/share/" 2>/dev/null || mkdir -p "$root/usr/share/zoneinfo"
ldd "$bin"/{postgres,initdb,pg_ctl,pg_isready,psql} "$(dirname "$bin")"/lib/{plpgsql,dict_snowball,libpqwalreceiver}.so |
  awk '/=> \// { print $3 } /^\t\// { print $1 }' | sort -u | while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done

cat >"$root/etc/passwd" <<'PASSWD'
root:x:0:0:root:/:/bin/sh
postgres:x:999:999:PostgreSQL:/var/lib/postgresql:/bin/sh
PASSWD
printf 'root:x:0:\npostgres:x:999:\n' >"$root/etc/group"
install -m 755 "$here/entrypoint.sh" "$root/usr/local/bin/docker-entrypoint.sh"
chmod 1777 "$root/tmp"
chown -R 999:999 "$root/var/lib/postgresql" "$root/var/run/postgresql"
chmod 700 "$root/var/lib/postgresql/data"

files=$(tar -C "$root" -c . | docker import -)
docker build -q -t "$image" - >/dev/null <<DOCKERFILE
FROM ${files#sha256:}
USER 999:999
ENV PGDATA=/var/lib/postgresql/data PATH=/usr/local/bin:/bin
VOLUME /var/lib/postgresql/data
EXPOSE 5432
STOPSIGNAL SIGINT
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]
DOCKERFILE
echo "$image: PostgreSQL $version, $(docker image inspect -f '{{.Size}}' "$image") bytes"
