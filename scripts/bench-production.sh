#!/usr/bin/env bash
# Measures Threadline with a Postgres and a Redis that the script starts and stops: `bench-production.sh <threadline-bench>
# [benchmark, …]`. Both have the default settings of their packages, with fsync on, and keep their files in a directory in
# $TMPDIR: choose one on the disk to be measured.
set -euo pipefail

program=$1
shift
[ $# -gt 0 ] || set -- all

binaries=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n1)
if ! command -v "${binaries:-/nowhere}/postgres" >/dev/null || ! command -v redis-server >/dev/null; then
  echo "PostgreSQL and Redis are missing: run scripts/setup.sh bench" >&2
  exit 1
fi

home=$(mktemp -d "${TMPDIR:-/tmp}/threadline-servers-XXXXXX")
servers=()
# Postgres refuses to be run by root.
as=()
if [ "$(id -u)" -eq 0 ]; then
  user=$(id -u postgres 2>/dev/null || id -u nobody)
  as=(setpriv "--reuid=$user" "--regid=$(id -g "$user")" --clear-groups)
  chown "$user" "$home"
fi

# SIGINT is a fast shutdown for Postgres, and an orderly one for Redis.
end() {
  trap - EXIT
  for server in "${servers[@]}"; do kill -INT "$server" 2>/dev/null || true; done
  for server in "${servers[@]}"; do wait "$server" 2>/dev/null || true; done
  rm -rf "$home"
}
trap end EXIT
# The script ignores these signals until the program has ended by itself, because the program removes the data that it created.
trap : INT TERM

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Starts a server on a free port: `start <name> <command line with PORT in it>`. The port is returned in $port.
start() {
  local name=$1 server
  shift
  for _ in 1 2 3 4 5; do
    port=$((20000 + RANDOM % 12000))
    ! listens "$port" || continue
    # A process group of its own, so that Ctrl-C ends the server after the program and not before.
    setsid "${as[@]}" "${@//PORT/$port}" >"$home/$name.log" 2>&1 </dev/null &
    server=$!
    for _ in $(seq 300); do
      if ! kill -0 "$server" 2>/dev/null; then break; fi
      if listens "$port"; then
        servers+=("$server")
        return
      fi
      sleep 0.1
    done
    kill -INT "$server" 2>/dev/null || true
  done
  echo "$name did not start:" >&2
  cat "$home/$name.log" >&2
  exit 1
}

"${as[@]}" "$binaries/initdb" -D "$home/data" -U postgres -A trust -E UTF8 --locale=C >"$home/initdb.log"
start postgres "$binaries/postgres" -D "$home/data" -p PORT -c listen_addresses=127.0.0.1 \
  -c "unix_socket_directories=$home"
postgres=$port
start redis redis-server --bind 127.0.0.1 --port PORT --dir "$home" --save '' --appendonly no
redis=$port
until "$binaries/pg_isready" -q -h 127.0.0.1 -p "$postgres"; do sleep 0.1; done

# No `exec`: the script stops the servers after the program has ended.
THREADLINE_BENCH_STORE="postgres://postgres@127.0.0.1:$postgres/postgres" \
  THREADLINE_BENCH_REDIS="redis://127.0.0.1:$redis/" \
  "$program" "$@" &
running=$!
status=0
wait "$running" || status=$?
# A signal interrupts `wait` before the program has ended.
while kill -0 "$running" 2>/dev/null; do
  status=0
  wait "$running" || status=$?
done
exit "$status"
