#!/usr/bin/env bash
# Restores a backup. Every server must be stopped. Existing data is not deleted.
#
#   restore.sh sqlite   BACKUP DATA       BACKUP: a directory from `threadline backup`, or a copy of a stopped server's
#   restore.sh postgres DUMP              DUMP: of `pg_dump --format=custom`; THREADLINE_STORE names an empty database, or
#                                         THREADLINE_STORE_FILE a file with its URL
#
# PROGRAM is the `threadline` program to run (default: the one in PATH).
set -euo pipefail
umask 077
program=${PROGRAM:-threadline}
fail() { echo "restore.sh: $*" >&2; exit 1; }

case "${1:-}" in
sqlite)
  backup=${2:?a backup is missing} data=${3:?the data directory is missing}
  [ -f "$backup/threadline.db" ] || fail "there is no backup in $backup"
  if [ -e "$data" ]; then
    # The server holds this lock while it runs.
    if [ -e "$data/lock" ]; then flock -n "$data/lock" true || fail "$data is in use: stop the server first"; fi
    aside=$data.before-$(date -u +%Y%m%dT%H%M%S)
    mv -- "$data" "$aside"
    echo "what was there is in $aside"
  fi
  mkdir -m 700 -- "$data"
  # A copy of a directory that was not closed cleanly has a write-ahead log, without which the database is incomplete.
  for file in threadline.db threadline.db-wal; do
    [ ! -f "$backup/$file" ] || cp -- "$backup/$file" "$data/$file"
  done
  # A backup has no key file: the secrets are opened by the one of the former directory, or of a copy of a stopped server's.
  for key in "$backup/secret.key" "${aside:-$backup}/secret.key"; do
    [ ! -f "$key" ] || [ -e "$data/secret.key" ] || cp -- "$key" "$data/secret.key"
  done
  [ -e "$data/secret.key" ] || echo "no key file: put secret.key into $data, unless servers have --secret-key-file"
  # The server notices that the file is a copy, and opens a generation.
  sync -f "$data"
  ;;
postgres)
  dump=${2:?a dump is missing}
  store=${THREADLINE_STORE:-$(cat -- "${THREADLINE_STORE_FILE:?or THREADLINE_STORE must name the database}")}
  # Arguments are visible to every user of the machine, so the password is passed in the environment.
  url=$(sed -E 's/([?&])pooler=[^&]*&?/\1/; s/[?&]$//' <<<"$store") # Postgres's own tools do not know this option
  if [[ $url =~ ^([a-z]+://[^:@/]*):([^@/]*)@(.*)$ ]]; then
    PGPASSWORD=$(printf '%b' "${BASH_REMATCH[2]//%/\\x}")
    export PGPASSWORD
    url=${BASH_REMATCH[1]}@${BASH_REMATCH[3]}
  fi
  # The restore is atomic. Owners and privileges are those of the role that connects.
  pg_restore --exit-on-error --single-transaction --no-owner --no-acl --dbname="$url" "$dump"
  "$program" migrate
  "$program" lineage new
  ;;
*) fail "usage: restore.sh sqlite BACKUP DATA, or restore.sh postgres DUMP" ;;
esac
