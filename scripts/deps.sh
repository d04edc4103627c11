#!/bin/sh
# Finds a real redis-server, or fetches one into .deps without root, and writes where it is to .deps/env,
# a NAME=value on each line.
#
#   scripts/deps.sh            the one of ROPELINE_REDIS_SERVER, in PATH or fetched before; else fetch
#   scripts/deps.sh --fetch    always fetch (Debian and Ubuntu)
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
deps="$root/.deps"
log="$deps/fetch.log"

say() { printf 'deps: %s\n' "$*" >&2; }

# works says whether $1 is a server that runs here.
works() { "$1" --version >/dev/null 2>&1; }

# settle ends the script with $1 as the server.
settle() {
    printf 'ROPELINE_REDIS_SERVER=%s\n' "$1" >"$deps/env.new"
    mv "$deps/env.new" "$deps/env"
    exit 0
}

# give_up ends the script with one line that says what to do.
give_up() {
    rm -f "$deps/env"
    say "$1; install redis or valkey, or name a server in ROPELINE_REDIS_SERVER"
    exit 1
}

# apt runs apt-get or apt-cache on lists of its own, so that it needs neither root nor the system's lists.
apt() {
    program=$1
    shift
    "$program" -q \
        -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o Debug::NoLocking=1 \
        -o "APT::Sandbox::User=$(id -un)" -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Acquire::Languages=none "$@"
}

# libraries prints the shared libraries that the package $1 depends on and that this system lacks, each
# once, with those that they depend on. The C library is never taken: every system has the one it needs.
libraries() {
    left=$1
    seen=" "
    while [ -n "$left" ]; do
        # shellcheck disable=SC2086 # a list of package names
        found=$(apt apt-cache depends --important $left | sed -n 's/^[ |]*\(Pre\)\{0,1\}Depends: \(lib[^ ]*\|lua-[^ ]*\)$/\2/p')
        left=""
        for name in $found; do
            case "$seen" in *" $name "*) continue ;; esac
            seen="$seen$name "
            case "$name" in libc6 | libgcc-s1 | libstdc++6) continue ;; esac
            case $(dpkg-query -W -f '${db:Status-Abbrev}' "$name" 2>/dev/null || true) in ii*) continue ;; esac
            left="$left $name"
            printf '%s\n' "$name"
        done
    done
}

# fetch_deb unpacks redis-server and the libraries it lacks into .deps/redis.
fetch_deb() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs" "$work/redis"
    apt apt-get update || true # one stale source among several is no reason to stop: the download decides
    # shellcheck disable=SC2046 # a list of package names
    (cd "$work/debs" && apt apt-get download redis-server redis-tools $(libraries redis-tools)) || return 1
    for deb in "$work"/debs/*.deb; do
        dpkg -x "$deb" "$work/redis/root" || return 1
    done
    cat >"$work/redis/redis-server" <<'WRAPPER'
#!/bin/sh
# Runs the server with the libraries that were unpacked beside it.
root=$(dirname "$0")/root
for folder in "$root"/usr/lib/*-linux-* "$root"/lib/*-linux-*; do
    if [ -d "$folder" ]; then LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"; fi
done
export LD_LIBRARY_PATH
exec "$root/usr/bin/redis-server" "$@"
WRAPPER
    chmod +x "$work/redis/redis-server"
    "$work/redis/redis-server" --version || return 1
    rm -rf "$deps/redis"
    cp -R "$work/redis" "$deps/redis"
}

mkdir -p "$deps"

if [ "${1:-}" != --fetch ]; then
    if [ -n "${ROPELINE_REDIS_SERVER:-}" ]; then
        works "$ROPELINE_REDIS_SERVER" || give_up "ROPELINE_REDIS_SERVER=$ROPELINE_REDIS_SERVER doesn't run"
        settle "$ROPELINE_REDIS_SERVER"
    fi
    for name in redis-server valkey-server; do
        server=$(command -v "$name" || true)
        if [ -n "$server" ] && works "$server"; then settle "$server"; fi
    done
    if works "$deps/redis/redis-server"; then settle "$deps/redis/redis-server"; fi
fi

if command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1; then
    say "fetching redis-server into .deps (with apt-get, without root)"
    if (fetch_deb) >"$log" 2>&1 && works "$deps/redis/redis-server"; then settle "$deps/redis/redis-server"; fi
    give_up "could not fetch redis-server (see .deps/fetch.log)"
fi
if command -v brew >/dev/null 2>&1; then
    say "installing redis with brew"
    if brew install redis >"$log" 2>&1; then
        server=$(brew --prefix)/bin/redis-server
        if works "$server"; then settle "$server"; fi
    fi
    give_up "brew could not install redis (see .deps/fetch.log)"
fi
give_up "there is no redis-server here, and no apt-get or brew to fetch one with"
