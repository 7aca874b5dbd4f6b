#!/usr/bin/env bash
# Fuzzes every target of src/fuzzing.rs, or the named one, for FUZZ_SECONDS (default 60). Inputs are the corpus and those that
# earlier runs found.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZ_SECONDS:-60}
tools=target/tools/cargo
version=0.13.1
if ! "$tools/bin/cargo-fuzz" --version 2>/dev/null | grep -qF "$version"; then
  cargo install --quiet --locked --root "$tools" --version "$version" cargo-fuzz
fi
# No sanitizer is used, since it needs a nightly compiler, and the project has no unsafe code. Panics, overflows, broken
# assertions, hangs and excessive use of memory are found without one.
# Dependencies have the product's versions; cargo adds the fuzzer's own.
cp Cargo.lock fuzz/Cargo.lock
"$tools/bin/cargo-fuzz" fuzz build --sanitizer none any
fuzzer=$(ls -t fuzz/target/*/release/any | head -n1)
mkdir -p fuzz/artifacts
# Files of exports are in memory if the machine has a file system for that.
[ ! -d /dev/shm ] || export TMPDIR=/dev/shm
status=0
for corpus in fuzz/corpus/${1:-*}; do
  target=$(basename "$corpus")
  found="target/fuzz/$target"
  mkdir -p "$found"
  log="target/fuzz/$target.log"
  # New inputs are kept outside of the corpus. Inputs that fail are written to fuzz/artifacts; after the fix they belong in
  # the corpus.
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
