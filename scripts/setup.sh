#!/usr/bin/env bash
# Sees to it that what the build and the tests need is there: installs Debian packages where it may, else says which.
# Rust itself has to be there already. `setup.sh run` (the default), `setup.sh test` or `setup.sh bench`; `setup.sh copilotkit`
# is `test` and CopilotKit's older releases, which only `make test-full` runs.
set -euo pipefail
older=""
if [ "${1:-}" = "copilotkit" ]; then
  older=yes
  set -- test
fi

need_rust="1.94"
packages=()
want() { command -v "$1" >/dev/null 2>&1 || packages+=("$2"); }
# Servers stand where no PATH may lead.
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
  # Tests and benchmark start servers of their own from these.
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
  want haproxy haproxy        # nodes behind a load balancer
  want chromium chromium      # CopilotKit's components for React
  want mix elixir             # the store for SkillKit
  for part in inets ssl; do compgen -G "/usr/lib/erlang/lib/$part-*" >/dev/null || packages+=("erlang-$part"); done
  python3 -c 'import venv, ensurepip' >/dev/null 2>&1 || packages+=(python3-venv)
fi

# Packages of servers would start them; only their programs are wanted. An administrator's own policy stays in force.
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

need_node=20
have=$(node --version | sed 's/^v//')
if [ "${have%%.*}" -lt "$need_node" ]; then
  echo "Node $have is too old: the tests need >= $need_node (https://nodejs.org/en/download)." >&2
  exit 1
fi
# npm notes in node_modules what it installed; it is up to date if that is newer than what is asked for.
node_packages() {
  if [ "$1/node_modules/.package-lock.json" -nt "$1/package-lock.json" ]; then return; fi
  echo "Installing the npm packages of ${1#"$root"/}" >&2
  npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund --silent
  touch "$1/node_modules/.package-lock.json"
}
root=$(cd "$(dirname "$0")/.." && pwd)
folders=(
  tests/agui tests/real/node
  # CopilotKit as its users have it.
  tests/copilotkit/packages/newest tests/copilotkit/packages/browser
  examples/copilotkit examples/agentkit examples/react
  sdk/typescript console
)
if [ -n "$older" ]; then
  folders+=(tests/copilotkit/packages/1.69 tests/copilotkit/packages/1.57 examples/copilotkit/runtime)
fi
# At the same time: most of it is waiting for the network.
installing=()
for each in "${folders[@]}"; do
  node_packages "$root/$each" &
  installing+=($!)
done
# What the examples need of Python, and what the tests check with.
"$root/scripts/example-venv.sh" >/dev/null
# AG-UI's SDK for Python, the newest: the examples have the one that their agent is built on.
"$root/scripts/venv.sh" "$root/tests/real/python/requirements.txt" "$root/target/agui-venv" >/dev/null
# What examines the server from outside.
"$root/scripts/venv.sh" "$root/tests/e2e/wire/requirements.txt" "$root/target/wire-venv" >/dev/null
"$root/scripts/checker-venv.sh" >/dev/null
for each in "${installing[@]}"; do wait "$each"; done
# The package for TypeScript, built: its own tests pack it, and others use it as its users do.
if [ -n "$(find "$root/sdk/typescript/src" "$root/sdk/typescript/tsconfig.build.json" -newer "$root/sdk/typescript/dist/index.js" -print -quit 2>&1)" ]; then
  echo "Building sdk/typescript" >&2
  npm run --prefix "$root/sdk/typescript" --silent build
fi
