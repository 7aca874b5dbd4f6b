#!/usr/bin/env bash
# Compares Cargo.lock with a copy of RustSec's advisory database, and records in AUDITED which versions were compared. With
# --state it prints the age of that record, and fails if Cargo.lock has changed since. Usage: scripts/audit.sh ADVISORY_DB (a checkout of github.com/rustsec/advisory-db) | --state
set -euo pipefail
cd "$(dirname "$0")/.."
lock=$(sha256sum Cargo.lock | cut -d' ' -f1)
if [ "${1:-}" = "--state" ]; then
  read -r _ _ noted <AUDITED
  state="advisories: $(head -n1 AUDITED | cut -d' ' -f1,2)"
  if [ "$noted" != "$lock" ]; then
    echo "$state; Cargo.lock has changed since: make audit ADVISORY_DB=…, and commit AUDITED with it" >&2
    exit 1
  fi
  echo "$state; Cargo.lock has not changed since"
  exit 0
fi
database=${1:?a checkout of the advisory database: git clone https://github.com/rustsec/advisory-db}
newest=$(git -C "$database" log -1 --format=%cs 2>/dev/null || true)
newest=${newest:-$(find "$database/crates" -name '*.md' -printf '%TY-%Tm-%Td\n' | sort | tail -n1)}
# Unmaintained and unsound packages fail the audit as well. Yanked ones are not checked: only the registry knows them.
for file in Cargo.lock fuzz/Cargo.lock; do
  [ ! -e "$file" ] || "$CARGO_AUDIT" audit --file "$file" --db "$database" --no-fetch --stale --deny warnings
done
# npm packages of tests and examples. Not every registry answers this request.
for directory in tests/agui tests/real/node tests/real/durable-streams tests/copilotkit/packages/{newest,browser} examples/copilotkit{,/runtime} examples/ai-sdk examples/all-clients examples/nextjs; do
  npm audit --prefix "$directory" >/dev/null 2>&1 || echo "npm audit of $directory: no answer, or a finding (npm audit --prefix $directory)"
done
echo "$newest nothing-known $lock" >AUDITED
scripts/audit.sh --state
