#!/usr/bin/env bash
# The README's tour, carried out as a newcomer would: the program on its own, curl, two readers of which one is away for
# half of the run, a real recorded run, and a real agent that streams live. Prints one line a check; fails at the first
# that does not hold.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=${1:?usage: tour.sh PATH-TO-THREADLINE}
work=$(mktemp -d)
server=""
passed=0
trap 'status=$?; [ -n "$server" ] && kill "$server" 2>/dev/null; wait 2>/dev/null; [ $status -eq 0 ] || cat "$work"/*.log >&2; rm -rf "$work"; exit $status' EXIT
ok() { passed=$((passed + 1)); echo "ok $passed - $1"; }
fail() { echo "not ok - $1" >&2; exit 1; }

unset THREADLINE_API_KEY THREADLINE_USER
"$program" serve --listen 127.0.0.1:0 --data "$work/data" >"$work/serve.out" 2>"$work/serve.log" &
server=$!
for _ in $(seq 100); do
  url=$(grep -om1 'http://[0-9.:]*' "$work/serve.out" || true)
  [ -n "$url" ] && curl -fsS "$url/healthz" >/dev/null 2>&1 && break
  sleep 0.1
done
curl -fsS "$url/healthz" | grep -q ok && ok "the server answers on $url"
export THREADLINE_URL=$url

curl -fsS "$url/v1/threads" -d '{"threadId":"demo","name":"My first thread"}' >/dev/null && ok "a thread is made"

# One reader follows all the way; the other one leaves after 300 events and comes back later.
timeout 60 "$program" tail demo --json >"$work/follower.ndjson" 2>"$work/follower.log" &
follower=$!
recording=$root/examples/pydantic-ai/recorded-run.ndjson
total=$(wc -l <"$recording")
half() { head -n 300 "$recording"; sleep 1; tail -n +301 "$recording"; }
half | curl -fsS -T - -X POST -H 'Content-Type: application/x-ndjson' "$url/v1/threads/demo/runs?runId=first" >"$work/run.json" &
upload=$!
(timeout 60 "$program" tail demo --json 2>"$work/away.log" || true) | head -n 250 >"$work/away.ndjson"
wait $upload || fail "the run was not taken: $(cat "$work/run.json")"
jq -e '.run.status == "finished"' "$work/run.json" >/dev/null && ok "a recorded run of $total events is streamed in"
after=$(tail -n1 "$work/away.ndjson" | jq .seq)
timeout 60 "$program" tail demo --json --after "$after" --until-caught-up >>"$work/away.ndjson" 2>>"$work/away.log"
for _ in $(seq 100); do [ "$(wc -l <"$work/follower.ndjson")" -ge "$total" ] && break; sleep 0.1; done
kill $follower 2>/dev/null || true
cmp "$work/follower.ndjson" "$work/away.ndjson" && ok "who was away for half of it has seen the same"
curl -fsS -H 'Accept: application/x-ndjson' "$url/v1/threads/demo/events" | cmp - "$work/follower.ndjson" && ok "and so says the log"
jq -e -s 'map(.seq) == [range(1; length + 1)]' "$work/follower.ndjson" >/dev/null && ok "seqs are dense"
sed 's/^{"seq":[0-9]*,"runId":"first","at":"[^"]*","event"://; s/}$//' "$work/follower.ndjson" | cmp - "$recording" && ok "payloads are kept byte for byte"

curl -fsS -T "$recording" -X POST -H 'Content-Type: application/x-ndjson' "$url/v1/threads/demo/runs?runId=first" >"$work/again.json"
curl -fsS "$url/v1/threads/demo" | jq -e ".tail == $total" >/dev/null && ok "the same run sent again changes nothing"

python=$("$root/scripts/example-venv.sh")
timeout 120 "$python" "$root/examples/pydantic-ai/stream_live.py" --url "$url" --thread live --delay 0 >"$work/live.out" 2>"$work/live.log"
curl -fsS "$url/v1/threads/live/runs" | jq -e '.runs[0].status == "finished" and .runs[0].producerSeq > 100' >/dev/null && ok "a pydantic-ai agent streams live into a thread"
timeout 60 "$python" "$root/examples/pydantic-ai/record.py" --help >/dev/null && ok "the recorder runs"

"$program" threads | grep -q 'My first thread' && ok "threads are listed"
kill -INT $server && wait $server && ok "Ctrl-C ends the server with exit code 0"
server=""
echo "test result: ok. $passed passed; 0 failed"
