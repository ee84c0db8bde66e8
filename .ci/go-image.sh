#!/usr/bin/env bash
# Makes an image with this machine's Go toolchain and a shell, so that the
# Dockerfile can be built where the public Go image cannot be pulled.
# usage: .ci/go-image.sh IMAGE
# needs: docker, Go, and Debian's packages busybox-static and ca-certificates
set -euo pipefail
image=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,etc/ssl/certs,tmp,root,usr/local/go}
chmod 1777 "$root/tmp"
cp "$(command -v busybox)" "$root/bin/sh"
for tool in chown mkdir; do
  ln -s sh "$root/bin/$tool"
done
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
goroot=$(go env GOROOT)
cp -r "$goroot"/{bin,src,go.env,VERSION} "$root/usr/local/go/"
mkdir -p "$root/usr/local/go/pkg"
cp -r "$goroot"/pkg/{include,tool} "$root/usr/local/go/pkg/"
files=$(tar -C "$root" -c . | docker import -)
docker build -q -t "$image" - >/dev/null <<DOCKERFILE
FROM ${files#sha256:}
ENV PATH=/usr/local/go/bin:/bin HOME=/root GOTOOLCHAIN=local GOFLAGS=-buildvcs=false
DOCKERFILE
echo "$image: $(go version), $(docker image inspect -f '{{.Size}}' "$image") bytes"
