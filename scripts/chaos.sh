#!/usr/bin/env bash
# Runs three nodes, Postgres and Redis under faults for MINUTES (default 10). The last line of the output is the verdict; the
# script fails if one of its numbers is not zero.
#
#   PLANT=name   with the bug of tests/chaos/plants/name.patch, until the bug is found or for MINUTES (default 2); fails if it is not found
#   PLANT=all    one bug after the other
#   PLANT=none   the same faults without any bug
#   TESTS=1      with PLANT: also runs the tests that PROMISES.md names for the bug, on the patched copy; fails unless one of
#                them fails
#   TESTS=only   with PLANT: runs these tests alone
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
plants=$root/tests/chaos/plants

# The test is built first and run without cargo, so that the verdict is the last line of the output.
build() { # cargo options; prints the program of the test
  cargo test "$@" --test chaos --no-run --message-format=json |
    jq -r 'select(.reason == "compiler-artifact" and .target.name == "chaos") | .executable | select(.)' | tail -n 1
}
run() { "$1" --ignored --exact for_long --nocapture; }

# The bug is applied to a copy: the work tree is never changed. One copy serves all bugs, and only files whose text differs
# are written, so that only the difference between two bugs is built again. Builds are debug builds: a release build takes
# minutes for each bug.
tree=$root/target/plants/tree
find_bug() { # name
  local name=$1 test said
  local patch=$plants/$name.patch
  [ -f "$patch" ] || { echo "PLANT=$name names no bug; there are: $(cd "$plants" && ls | sed 's/\.patch$//' | tr '\n' ' ')" >&2; exit 2; }
  mkdir -p "$tree"
  scripts/copy_tree.py "$tree" "$patch" || return 1
  case "$tests" in
    "") ;;
    1) fail_tests "$name" || return 1 ;;
    only) fail_tests "$name"; return ;;
  esac
  # Chaos meets it too seldom to be held to it.
  if grep -qx 'Found by: its tests' "$patch"; then
    [ "$tests" = 1 ] || fail_tests "$name"
    return
  fi
  test=$(copied build)
  said=$(mktemp)
  if (cd "$tree" && PLANT=$name run "$test") | tee "$said"; then
    echo "$name: NOT FOUND"
    rm -f "$said"
    return 1
  fi
  local breaks
  breaks=$(sed -n 's/^Breaks: //p' "$patch")
  if ! grep -E '^faults ' "$said" | tail -n 1 | grep -qE "(${breaks// /|}) [1-9]"; then
    echo "$name: found, but not as $breaks: $(grep -E '^faults ' "$said" | tail -n 1)"
    rm -f "$said"
    return 1
  fi
  rm -f "$said"
  echo "$name: found as $breaks"
}

# The programs of the tests are built first, so that only a test counts as failed. They are run in the order that promises.py
# gives, quick ones first, until a test fails.
fail_tests() { # name
  local name=$1 programs program said failed ran=0
  programs=$(scripts/promises.py "$name") || return 1
  said=$(mktemp)
  while read -r program; do
    # shellcheck disable=SC2086
    copied cargo test ${program%% -- *} --no-run || { echo "$name: its tests are not built: cargo test $program"; return 1; }
    # shellcheck disable=SC2086
    copied timeout 900 cargo test $program < /dev/null 2>&1 | tee "$said" || true
    ran=$((ran + $(awk '/^running [0-9]+ tests?$/ { ran += $2 } END { print ran + 0 }' "$said")))
    failed=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$said" | sort -u | paste -sd' ')
    [ -z "$failed" ] || break
  done <<< "$programs"
  rm -f "$said"
  if [ -z "$failed" ]; then
    echo "$name: NO TEST FAILS of $ran that PROMISES.md names"
    return 1
  fi
  echo "$name: tests fail: $failed"
}
copied() { (cd "$tree" && CARGO_TARGET_DIR=$root/target/plants/target "$@"); }

tests=${TESTS:-}
case "$tests" in
  "" | 1 | only) ;;
  *) echo "TESTS=$tests is neither 1 nor only" >&2; exit 2 ;;
esac
case "${PLANT:-}" in
  "" | none) [ -z "$tests" ] || { echo "TESTS needs PLANT=name or PLANT=all" >&2; exit 2; } ;;
esac

case "${PLANT:-}" in
  "" | none) run "$(build --release)" ;;
  all)
    missed=0
    for patch in "$plants"/*.patch; do
      find_bug "$(basename "$patch" .patch)" || missed=$((missed + 1))
    done
    echo "planted $(ls "$plants" | wc -l), missed $missed"
    [ "$missed" -eq 0 ]
    ;;
  *) find_bug "$PLANT" ;;
esac
