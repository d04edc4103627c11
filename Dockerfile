# One static binary and the certificate authorities, nothing else.
#
#   docker build -t ropeline .
#   docker run -p 8080:8080 -v "$PWD/deploy/config:/etc/ropeline:ro" ropeline

FROM golang:1.27.3 AS build
ENV GOTOOLCHAIN=go1.27.3 CGO_ENABLED=0
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN go build -trimpath -buildvcs=false -ldflags='-s -w' -o /out/ropeline ./cmd/ropeline

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/ropeline /ropeline
USER 65532:65532
# 8080 for visitors; 9901 for metrics, health and the admin API, to be kept off the internet.
EXPOSE 8080 9901
ENTRYPOINT ["/ropeline"]
# The folder /etc/ropeline is to be mounted, not the file alone: a file that is replaced under a mount of
# its own is never seen to change.
CMD ["serve", "--config", "/etc/ropeline/ropeline.yaml"]
