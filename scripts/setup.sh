#!/usr/bin/env bash
# Installs the Debian packages that the build and the tests need; without the permission to install, it prints their names.
# Rust has to be installed already. `setup.sh run` (the default), `setup.sh test` or `setup.sh bench`; `setup.sh full`
# is `test` plus Next.js and CopilotKit's older releases, which only `make test-full` uses.
set -euo pipefail
full=""
if [ "${1:-}" = "full" ]; then
  full=yes
  set -- test
fi

need_rust="1.94"
packages=()
want() { command -v "$1" >/dev/null 2>&1 || packages+=("$2"); }
# Programs of servers may be in a directory that is not in PATH.
want_server() { PATH="$PATH:/usr/sbin" want "$@"; }

if ! command -v cargo >/dev/null 2>&1; then
  echo "Rust is missing: install Rust >= $need_rust with rustup, then run this again." >&2
  exit 1
fi
have=$(rustc --version | cut -d' ' -f2 | cut -d- -f1)
if [ "$(printf '%s\n%s\n' "$need_rust" "$have" | sort -V | head -n1)" != "$need_rust" ]; then
  echo "Rust $have is too old: Threadline needs >= $need_rust (rustup update stable)." >&2
  exit 1
fi

want cc build-essential       # SQLite, zstd and the TLS library are built from C
want curl curl                # examples and smoke test
if [ "${1:-run}" != "run" ]; then
  # Tests and benchmarks start their own servers from these packages.
  compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || want postgres postgresql
  want_server redis-server redis-server
fi
if [ "${1:-run}" = "test" ]; then
  want strace strace          # the order of system calls, and kills at a chosen one
  want jq jq
  want python3 python3
  want node nodejs            # the real AG-UI client
  want npm npm
  want_server pgbouncer pgbouncer
  want openssl openssl
  want faketime faketime      # clocks that are set while programs run
  want haproxy haproxy        # nodes behind a load balancer
  want systemd-analyze systemd # how well the unit is sealed off; nothing of it is started
  want chromium chromium      # CopilotKit's components for React
  want mix elixir             # the store for SkillKit
  for part in inets ssl; do compgen -G "/usr/lib/erlang/lib/$part-*" >/dev/null || packages+=("erlang-$part"); done
  python3 -c 'import venv, ensurepip' >/dev/null 2>&1 || packages+=(python3-venv)
fi

# The packages would start their servers, but only their programs are needed. An administrator's own policy stays in force.
quietly() {
  local policy=/usr/sbin/policy-rc.d status=0
  if [ -e "$policy" ]; then policy=""; else printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"; fi
  DEBIAN_FRONTEND=noninteractive "$@" >/dev/null || status=$?
  [ -z "$policy" ] || rm -f "$policy"
  return $status
}

install_packages() {
  local install="apt-get install -y --no-install-recommends $*"
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "Missing: $* (names of Debian packages). Install them and run this again." >&2
    exit 1
  fi
  if [ "$(id -u)" -eq 0 ]; then
    echo "Installing $*" >&2
    apt-get update -qq && quietly $install
  elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    echo "Installing $*" >&2
    sudo apt-get update -qq && sudo bash -c "$(declare -f quietly); quietly $install"
  else
    echo "Missing: $*. Run: sudo apt-get update && sudo $install" >&2
    exit 1
  fi
}
[ "${#packages[@]}" -eq 0 ] || install_packages "${packages[@]}"
[ "${1:-run}" = "test" ] || exit 0

if ! python3 -c 'import tomllib' 2>/dev/null; then
  echo "$(python3 --version) is too old: the checks of \`make lint\` need >= 3.11." >&2
  exit 1
fi
need_node=20
have=$(node --version | sed 's/^v//')
if [ "${have%%.*}" -lt "$need_node" ]; then
  echo "Node $have is too old: the tests need >= $need_node (https://nodejs.org/en/download)." >&2
  exit 1
fi
# npm records in node_modules what it installed; the record is up to date if it is newer than the lock file.
node_packages() {
  if [ "$1/node_modules/.package-lock.json" -nt "$1/package-lock.json" ]; then return; fi
  echo "Installing the npm packages of ${1#"$root"/}" >&2
  npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund --silent
  touch "$1/node_modules/.package-lock.json"
}
root=$(cd "$(dirname "$0")/.." && pwd)
folders=(
  tests/agui tests/real/node tests/real/durable-streams
  # Published releases of CopilotKit.
  tests/copilotkit/packages/newest tests/copilotkit/packages/browser
  examples/copilotkit examples/agentkit examples/react examples/ai-sdk examples/all-clients
  # Bun, Deno, workerd and Node 22, beside the Node of this machine.
  sdk/typescript/test/runtimes
  sdk/typescript sdk/typescript/test/react18 console
  # The type checker of the Python package.
  sdk/python
)
if [ -n "$full" ]; then
  folders+=(examples/nextjs tests/copilotkit/packages/1.69 tests/copilotkit/packages/1.57 examples/copilotkit/runtime)
fi
# Installations run in parallel, because most of their time is waiting for the network.
installing=()
for each in "${folders[@]}"; do
  node_packages "$root/$each" &
  installing+=($!)
done
environment() { # name in target, folder of its requirements
  "$root/scripts/venv.sh" "$root/$2/requirements.txt" "$root/target/$1" >/dev/null &
  installing+=($!)
}
environment example-venv examples/pydantic-ai
# The newest AG-UI SDK for Python; the examples use the version that their agent requires.
environment agui-venv tests/real/python
# The Python package's own tests, and the frameworks that they use.
environment python-venv sdk/python
for each in "$root"/sdk/python/test/*/sets/*; do
  name=$(basename "$each")
  if [ -n "$full" ] || [ "${name##*-}" = newest ]; then environment "pipe-$name" "${each#"$root"/}"; fi
done
# Tools that test the server from outside.
environment wire-venv tests/e2e/wire
"$root/scripts/checker-venv.sh" >/dev/null &
installing+=($!)
for each in "${installing[@]}"; do wait "$each"; done
# The TypeScript package is built here: its own tests pack it, and other tests use the packed form as its users do.
if [ -n "$(find "$root/sdk/typescript/src" "$root/sdk/typescript/tsconfig.build.json" -newer "$root/sdk/typescript/dist/index.js" -print -quit 2>&1)" ]; then
  echo "Building sdk/typescript" >&2
  npm run --prefix "$root/sdk/typescript" --silent build
fi
