#!/usr/bin/env bash
# The README's tour, carried out as a newcomer would: the program on its own, curl, a chat with the demo agent, two
# readers of which one is away for half of the run, a real recorded run, a real agent that streams live, and one that
# Threadline runs. Prints one line a check; fails at the first that does not hold.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=$(realpath "${1:?usage: tour.sh PATH-TO-THREADLINE}")
work=$(mktemp -d)
server=""
passed=0
trap 'status=$?; [ -n "$server" ] && kill "$server" 2>/dev/null; wait 2>/dev/null; [ $status -eq 0 ] || cat "$work"/*.log >&2; rm -rf "$work"; exit $status' EXIT
trap 'echo "not ok - line $LINENO: $BASH_COMMAND" >&2' ERR
# Said after what it names; a check that does not hold has ended the tour before.
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
curl -fsS "$url/healthz" | grep ok >/dev/null; ok "the server answers on $url"
export THREADLINE_URL=$url

# README's own blocks, word for word: only the address and the path of the program are this test's.
# block HEADING N: the N-th shell block under the heading.
block() { awk -v heading="## $1" -v n="$2" '$0 == heading { on = 1; next } on && /^## / { exit } on && /^```sh$/ { k++; inside = k == n; next } /^```$/ { inside = 0 } inside' "$root/README.md"; }
here() { sed -e "s#http://localhost:7420#$url#g" -e "s#target/release/threadline#$program#g"; }
block "Chat at once" 1 | here >"$work/chat.sh"
grep -q messages "$work/chat.sh"
timeout 120 bash -euo pipefail "$work/chat.sh" >"$work/chat.out" 2>"$work/chat.log"; ok "README's first block runs to its end"
tail -n1 "$work/chat.out" | jq -e '[.messages[] | select(.role == "user").content] == ["Hello there"]' >/dev/null; ok "and shows the conversation"
curl -fsS -X DELETE "$url/v1/threads/chat" >/dev/null
make -n -C "$root" run | grep 'cargo build' | grep -v -- --quiet >/dev/null; ok "make run shows the progress of its build"

# Chat at once.
curl -fsS "$url/v1/threads" -d '{"threadId":"chat"}' >/dev/null
say() { curl -fsS "$url/v1/threads/chat/runs" -d '{"agentId":"demo","runId":"'"$1"'","input":{"messages":[{"role":"user","content":"'"$2"'"}]}}' >/dev/null; }
for words in Hello Again; do
  say $words $words
  timeout 60 "$program" tail chat --run $words --raw >"$work/$words.ndjson" 2>"$work/$words.log"
  tail -n1 "$work/$words.ndjson" | jq -e '.type == "RUN_FINISHED"' >/dev/null; ok "the demo agent answers to $words"
done
curl -fsS "$url/v1/threads/chat/messages" >"$work/messages.json"
jq -e '[.messages[] | select(.role == "user").content] == ["Hello", "Again"]' "$work/messages.json" >/dev/null; ok "what was said is there"
jq -e '[.messages[] | select(.role == "assistant")] | length >= 2' "$work/messages.json" >/dev/null; ok "and what was answered"
curl -fsS "$url/v1/threads/chat/state" | jq -e '.state.plan.runs == 2' >/dev/null; ok "the state has gone on from run to run"
timeout 60 "$program" run chat "Hello again" 2>/dev/null | grep . >/dev/null; ok "threadline run shows an answer"
curl -fsS "$url/agui/demo" -d '{"threadId":"chat","messages":[{"role":"user","content":"Over AG-UI"}]}' | tail -n 2 | grep RUN_FINISHED >/dev/null; ok "an AG-UI client gets the run's events"
curl -fsS -X PUT "$url/v1/agents/mine" -d '{"url":"http://127.0.0.1:8000/"}' | jq -e '.origin == "api"' >/dev/null; ok "an agent is added over the API"

# Five minutes with curl.
curl -fsS "$url/v1/threads" -d '{"threadId":"demo","name":"My first thread"}' >/dev/null; ok "a thread is made"

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
jq -e '.run.status == "finished"' "$work/run.json" >/dev/null; ok "a recorded run of $total events is streamed in"
after=$(tail -n1 "$work/away.ndjson" | jq .seq)
timeout 60 "$program" tail demo --json --after "$after" --until-caught-up >>"$work/away.ndjson" 2>>"$work/away.log"
for _ in $(seq 100); do [ "$(wc -l <"$work/follower.ndjson")" -ge "$total" ] && break; sleep 0.1; done
kill $follower 2>/dev/null || true
cmp "$work/follower.ndjson" "$work/away.ndjson"; ok "who was away for half of it has seen the same"
curl -fsS -H 'Accept: application/x-ndjson' "$url/v1/threads/demo/events" | cmp - "$work/follower.ndjson"; ok "and so says the log"
jq -e -s 'map(.seq) == [range(1; length + 1)]' "$work/follower.ndjson" >/dev/null; ok "seqs are dense"
sed 's/^{"seq":[0-9]*,"runId":"first","at":"[^"]*","event"://; s/}$//' "$work/follower.ndjson" | cmp - "$recording"; ok "payloads are kept byte for byte"

curl -fsS -T "$recording" -X POST -H 'Content-Type: application/x-ndjson' "$url/v1/threads/demo/runs?runId=first" >"$work/again.json"
curl -fsS "$url/v1/threads/demo" | jq -e ".tail == $total" >/dev/null; ok "the same run sent again changes nothing"

python=$("$root/scripts/example-venv.sh")
timeout 120 "$python" "$root/examples/pydantic-ai/stream_live.py" --url "$url" --thread live --delay 0 >"$work/live.out" 2>"$work/live.log"
curl -fsS "$url/v1/threads/live/runs" | jq -e '.runs[0].status == "finished" and .runs[0].producerSeq > 100' >/dev/null; ok "a pydantic-ai agent streams live into a thread"
timeout 60 "$python" "$root/examples/pydantic-ai/record.py" --help >/dev/null; ok "the recorder runs"
PACE=0 timeout 120 "$root/examples/pydantic-ai/run.sh" --once >"$work/run.out" 2>"$work/run.log"
grep -q 'RUN_FINISHED' "$work/run.out"; ok "an agent under uvicorn is run by Threadline"
timeout 60 python3 "$root/examples/push_a_run.py" "Hello from Python" --thread pushed --pace 0 | grep 'is finished' >/dev/null; ok "a run is pushed with Python's standard library"

"$program" threads | grep 'My first thread' >/dev/null; ok "threads are listed"
kill -INT $server; wait $server; ok "Ctrl-C ends the server with exit code 0"
server=""

# README's "Letting people in", word for word, in one shell as a reader would.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port
{ block "Letting people in" 1; echo 'server=$!'; block "Letting people in" 2; echo; echo 'kill -INT $server; wait $server'; } | here >"$work/people.sh"
grep -q 'keys create backend' "$work/people.sh"
(cd "$work" && THREADLINE_URL=$url THREADLINE_LISTEN=127.0.0.1:$port THREADLINE_DATA=$work/people timeout 120 bash -euo pipefail people.sh >people.out 2>people.log)
tail -n1 "$work/people.out" | jq -e '.token | length > 100' >/dev/null; ok "README's \"Letting people in\" gives a user a token"

# Letting people in: the operator's key, a backend's, a user's token, and a backend that signs people in.
THREADLINE_API_KEY=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
export THREADLINE_API_KEY
"$program" serve --listen 127.0.0.1:0 --data "$work/closed" >"$work/closed.out" 2>"$work/closed.log" &
server=$!
url=""
for _ in $(seq 100); do
  url=$(grep -om1 'http://[0-9.:]*' "$work/closed.out" || true)
  [ -n "$url" ] && curl -fsS "$url/readyz" >/dev/null 2>&1 && break
  sleep 0.1
done
export THREADLINE_URL=$url
status() { curl -s -o "$work/answer.json" -w '%{http_code}' "$@"; }
[ "$(status "$url/v1/threads")" = 401 ]; ok "nobody is let in without a key"
backend=$("$program" keys create backend 2>/dev/null)
"$program" keys list | grep '^backend  read,write,agents,tokens' >/dev/null; ok "a backend gets a key"
token=$(curl -fsS "$url/v1/tokens" -H "Authorization: Bearer $backend" -d '{"userId":"alice"}' | jq -r .token)
curl -fsS "$url/v1/threads" -H "Authorization: Bearer $token" -d '{"threadId":"hers"}' | jq -e '.userId == "alice"' >/dev/null; ok "a user gets a token, and a thread"
other=$("$program" token bob)
[ "$(status "$url/v1/threads/hers" -H "Authorization: Bearer $other")" = 404 ]; ok "another user does not see it"
ticket=$(curl -fsS -X POST "$url/v1/socket-tickets" -H "Authorization: Bearer $token" | jq -r .ticket)
[ "$(status "$url/v1/socket?ticket=$ticket")" = 400 ] || fail "the ticket is not taken: $(cat "$work/answer.json")"
[ "$(status "$url/v1/socket?ticket=$ticket")" = 401 ]; ok "a ticket is good once"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
BACKEND_KEY=$backend PORT=$port python3 "$root/examples/sign_in/server.py" >"$work/sign_in.log" 2>&1 &
sign_in=$!
for _ in $(seq 100); do curl -fsS "http://localhost:$port/" >/dev/null 2>&1 && break; sleep 0.1; done
session=$(curl -fsS "http://localhost:$port/session" -H 'Content-Type: application/json' -d '{"user":"alice"}' | jq -r .token || true)
kill $sign_in
[ "$(status "$url/v1/threads/hers" -H "Authorization: Bearer $session")" = 200 ]; ok "examples/sign_in signs in"
"$program" users erase alice --yes | jq -e '.erased.threads == 1' >/dev/null; ok "a user is erased, with a receipt"
"$program" keys revoke backend >/dev/null
[ "$(status "$url/v1/threads" -H "Authorization: Bearer $backend")" = 401 ]; ok "a revoked key is refused"
"$program" audit | grep key.revoked >/dev/null; ok "and the audit knows"
kill -INT $server; wait $server
server=""
echo "test result: ok. $passed passed; 0 failed"
