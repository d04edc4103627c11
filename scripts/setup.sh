# Sourced by the other scripts. Sets root to the checkout, chooses the Go release to build with, and
# defines say, find_redis and find_postgres.
# shellcheck shell=sh

# The release we build with: the net/http of Go 1.26 up to 1.26.8 has known holes, and ours faces the world.
release=go1.27.3

root=$(cd "$(dirname "$0")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }

if ! command -v go >/dev/null 2>&1; then
    say "Go is not installed. Get 1.26 or newer from https://go.dev/dl/"
    exit 1
fi
if (cd "$root" && GOTOOLCHAIN=$release go version) >/dev/null 2>&1; then
    export GOTOOLCHAIN=$release
else
    export GOTOOLCHAIN=local
    say "note: $release can't be had here, so this builds with $(cd / && go env GOVERSION)"
fi

# Version control may be absent, or may refuse a checkout that belongs to somebody else.
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"

# find_redis exports ROPELINE_REDIS_SERVER, fetching a server if need be. It fails, having said why, where
# none can be had.
find_redis() { find_server redis ROPELINE_REDIS_SERVER; }

# find_postgres does the same for ROPELINE_PG_BIN, the folder of a server's programs.
find_postgres() { find_server postgres ROPELINE_PG_BIN; }

find_server() {
    sh "$root/scripts/deps.sh" "$1" || return 1
    export "$2=$(sed -n "s/^$2=//p" "$root/.deps/env")"
}
