#!/usr/bin/env bash
# Every target of src/fuzzing.rs for FUZZ_SECONDS (60), or the one that is named; from the corpus and what was found before.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZ_SECONDS:-60}
tools=target/tools/cargo
version=0.13.1
if ! "$tools/bin/cargo-fuzz" --version 2>/dev/null | grep -qF "$version"; then
  cargo install --quiet --locked --root "$tools" --version "$version" cargo-fuzz
fi
# Without a sanitizer, which would need a nightly compiler: there is no unsafe code of ours for one to watch. Panics,
# overflows, broken assertions, hangs and hunger for memory are found all the same.
# The versions of the product; cargo adds what the fuzzer needs beside them.
cp Cargo.lock fuzz/Cargo.lock
"$tools/bin/cargo-fuzz" fuzz build --sanitizer none any
fuzzer=$(ls -t fuzz/target/*/release/any | head -n1)
mkdir -p fuzz/artifacts
# Exports are files: in memory, where there is such a place.
[ ! -d /dev/shm ] || export TMPDIR=/dev/shm
status=0
for corpus in fuzz/corpus/${1:-*}; do
  target=$(basename "$corpus")
  found="target/fuzz/$target"
  mkdir -p "$found"
  log="target/fuzz/$target.log"
  # Inputs that are new go beside the corpus; what breaks goes to fuzz/artifacts, to be fixed and then kept in the corpus.
  if FUZZ_TARGET="$target" "$fuzzer" "$found" "$corpus" -artifact_prefix="fuzz/artifacts/$target-" \
    -max_total_time="$time" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 >"$log" 2>&1; then
    runs=$(awk '/number_of_executed_units/ { print $2 }' "$log")
    echo "$target: $runs executions in $time s, nothing found"
  else
    status=1
    echo "$target: FOUND SOMETHING"
    grep -aE 'panicked|ERROR|ALARM|SUMMARY|Test unit written' -A2 "$log" | head -n 20
  fi
done
exit $status
