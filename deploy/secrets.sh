#!/usr/bin/env bash
# Writes the secrets of docker-compose.yml, each to a file that only its owner can read: deploy/secrets.sh [DIRECTORY]. Existing
# files stay: the database keeps the password with which it was created. Keep a copy of secret-key apart from the backups.
set -euo pipefail
umask 077
directory=${1:-$(dirname "$0")/secrets}
mkdir -p "$directory"
cd "$directory"
make() { [ -s "$1" ] || { printf '%s\n' "$2" >"$1.part" && mv "$1.part" "$1"; }; }
make api-key "$(openssl rand -hex 32)"
make secret-key "k1:$(openssl rand -base64 32)"
make postgres-password "$(openssl rand -hex 24)"
make store-url "postgres://threadline:$(cat postgres-password)@postgres:5432/threadline"
# Redis reads its password from a configuration file, and the nodes read it from their URL.
make redis.conf "requirepass $(openssl rand -hex 24)"
make redis-url "redis://:$(sed -n 's/^requirepass //p' redis.conf)@redis:6379/0"
echo "secrets: $PWD"
