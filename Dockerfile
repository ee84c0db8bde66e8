# The server as a static binary in an image that holds nothing else.
#
#   docker build -t leasehold .
#   docker run -p 127.0.0.1:6632:6632 -p 127.0.0.1:2319:2319 -p 127.0.0.1:8790:8790 \
#     -v leasehold-data:/data leasehold
#
# GO_IMAGE is where the compiler comes from: any image with Go 1.26 and a shell.
ARG GO_IMAGE=golang:1.26
FROM ${GO_IMAGE} AS build
ARG GOPROXY
ARG VERSION=
WORKDIR /src
COPY go.mod go.sum ./
COPY core ./core
COPY adapters ./adapters
COPY store ./store
COPY cmd ./cmd
RUN CGO_ENABLED=0 go build -trimpath \
      -ldflags "-s -w -X github.com/leasehold/leasehold/cmd/leasehold/app.Version=${VERSION}" \
      -o /image/leasehold ./cmd/leasehold \
 && mkdir -p /image/data && chown 65532:65532 /image/data

FROM scratch
COPY --from=build --chown=65532:65532 /image /
USER 65532:65532
VOLUME /data
# Inside a container every listener must be reachable from outside it. Who may
# reach it is decided by the ports that are published; without tokens the
# server has to be told that this is meant.
ENV LEASEHOLD_DATA_DIR=/data \
    LEASEHOLD_QUEEN_ADDR=:6632 \
    LEASEHOLD_QUERATOR_ADDR=:2319 \
    LEASEHOLD_CFQUEUES_ADDR=:8790 \
    LEASEHOLD_ADMIN_ADDR=:8400 \
    LEASEHOLD_LOG_FORMAT=json
EXPOSE 6632 2319 8790 8400
ENTRYPOINT ["/leasehold"]
CMD ["serve", "--insecure"]
