#!/usr/bin/env bash
# Runs the shell blocks of README.md, docs/tour.md and docs/agent-data.md, and those of OPERATIONS.md under "Authentication", verbatim, as a new user
# would, and checks their results. Then checks two readers, one of them disconnected for half of the run, an agent that streams
# live, and an agent that Threadline runs. Prints one line per check. Fails at the first failed check, and if a shell block of
# README.md, docs/tour.md or docs/agent-data.md was not run.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=$(realpath "${1:?usage: tour.sh PATH-TO-THREADLINE}")
work=$(mktemp -d)
server=""
passed=0
trap 'status=$?; [ -n "$server" ] && kill "$server" 2>/dev/null; wait 2>/dev/null; [ $status -eq 0 ] || cat "$work"/*.log >&2; rm -rf "$work"; exit $status' EXIT
trap 'echo "not ok - line $LINENO: $BASH_COMMAND" >&2' ERR
# ok NAME: prints a check that has passed; a failed check ends the script before.
ok() { passed=$((passed + 1)); echo "ok $passed - $1"; }
fail() { echo "not ok - $1" >&2; exit 1; }

unset THREADLINE_API_KEY THREADLINE_DEVELOPMENT THREADLINE_USER
"$program" dev --listen 127.0.0.1:0 --data "$work/data" >"$work/serve.out" 2>"$work/serve.log" &
server=$!
for _ in $(seq 100); do
  url=$(grep -om1 'http://[0-9.:]*' "$work/serve.out" || true)
  [ -n "$url" ] && curl -fsS "$url/livez" >/dev/null 2>&1 && break
  sleep 0.1
done
curl -fsS "$url/livez" | grep ok >/dev/null; ok "the server answers on $url"
export THREADLINE_URL=$url

# Blocks are run verbatim, except for the address and the path of the program.
# block FILE HEADING N [LANGUAGE]: the N-th shell block (or of that language) under the heading.
block() {
  echo "$1 | $2 | $3 | ${4:-sh}" >>"$work/blocks"
  awk -v heading="## $2" -v n="$3" -v fence="\`\`\`${4:-sh}" '$0 == heading { on = 1; next } on && /^## / { exit } on && $0 == fence { k++; inside = k == n; next } /^```$/ { inside = 0 } inside' "$root/$1" | grep . || fail "no block $*"
}
# Lists all shell blocks of a page, in the format in which `block` records them.
blocks_of() { awk -v file="$1" '/^## / { heading = substr($0, 4); k = 0 } $0 == "```sh" { print file " | " heading " | " ++k " | sh" }' "$root/$1"; }
# snippet WORDS: the code in the row of README's table of APIs that begins with these words.
snippet() {
  echo "README.md | APIs | $1" >>"$work/blocks"
  awk -F' [|] ' -v row="| $1" '$1 == row { print $2 }' "$root/README.md" | sed -n 's/^`\(.*\)`$/\1/p' | grep . || fail "no snippet of $1"
}
here() { sed -e "s#http://localhost:7420#$url#g" -e "s#target/release/threadline#$program#g" -e 's#=127.0.0.1:7421#=127.0.0.1:0#'; }
# as NAME: runs its input in the directory of the repository, with the output in NAME.out; `as NAME follow` is for endless readers.
as() {
  here >"$work/$1.sh"
  grep -q . "$work/$1.sh" || fail "nothing to run as $1"
  cd "$root"
  if [ "${2:-}" = follow ]; then exec timeout 120 bash -euo pipefail "$work/$1.sh" >"$work/$1.out" 2>"$work/$1.log"; fi
  timeout 120 bash -euo pipefail "$work/$1.sh" >"$work/$1.out" 2>"$work/$1.log"
}
# holds FILE WORDS [TIMES]: waits until FILE contains WORDS, TIMES times.
holds() {
  for _ in $(seq 300); do
    if [ "$({ grep -o -- "$2" "$1" 2>/dev/null || true; } | wc -l)" -ge "${3:-1}" ]; then return; fi
    sleep 0.1
  done
  fail "$1 does not contain $2"
}

block README.md Start 1 | sed "s#^make #make -n -C '$root' #" >"$work/commands.sh"
bash -euo pipefail "$work/commands.sh" >"$work/commands.out"
grep 'cargo build' "$work/commands.out" | grep -v -- --quiet >/dev/null; ok "make run shows the progress of its build"
grep 'scripts/test.py' "$work/commands.out" >/dev/null; ok "make test runs the tests"
block README.md Start 2 | as chat; ok "README's first conversation is completed"
tail -n1 "$work/chat.out" | jq -e '[.messages[] | select(.role == "user").content] == ["Hello there"]' >/dev/null; ok "README's first conversation is shown"
snippet "curl, any HTTP client" | as events
jq -e '.events | length > 0' "$work/events.out" >/dev/null; ok "README's curl reads its events"
snippet "a program that saves whole message lists" | as document
jq -e '.messages[0].content == "Hello there"' "$work/document.out" >/dev/null; ok "README's curl reads the messages as a document"
snippet "a client of Durable Streams" | as durable
jq -e 'map(.type) | index("RUN_FINISHED")' "$work/durable.out" >/dev/null; ok "README's curl reads the thread as a durable stream"
snippet "an agent with an HTTP endpoint" | as agent
jq -e '.origin == "api"' "$work/agent.out" >/dev/null; ok "README's agent is added over the API"
grep -qF "$(snippet Rust)" "$root/examples/rust/follow.rs"; ok "README's line of Rust is the example's"
grep -qxF "$(snippet "SkillKit (Elixir)")" "$root/docs/skillkit.md"; ok "README's line of Elixir is that of docs/skillkit.md"
curl -fsS -X DELETE "$url/v1/threads/chat" >/dev/null

# The blocks of docs/tour.md, from its beginning.
tour=docs/tour.md
block $tour "Chat with the demo agent" 1 | as demo
tail -n1 "$work/demo.out" | jq -e '.messages or .state' >/dev/null; ok "the tour's conversation is completed"
block $tour "Chat with the demo agent" 2 | as again
curl -fsS "$url/v1/threads/chat/messages" >"$work/messages.json"
jq -e '[.messages[] | select(.role == "user").content] == ["Hello there", "Hello again", "help"]' "$work/messages.json" >/dev/null; ok "the tour's conversation is continued"
curl -fsS -X DELETE "$url/v1/threads/chat" >/dev/null

block $tour "Five minutes with curl" 1 | as make
jq -e '.threadId == "demo"' "$work/make.out" >/dev/null; ok "a thread is created"
block $tour "Five minutes with curl" 2 | as tail follow &
tail=$!
block $tour "Five minutes with curl" 3 | as sse follow &
sse=$!
block $tour "Five minutes with curl" 4 | as stream
jq -e '.run.status == "finished"' "$work/stream.out" >/dev/null; ok "a recorded run is streamed in"
holds "$work/tail.out" RUN_FINISHED; ok "threadline tail has followed it"
holds "$work/sse.out" RUN_FINISHED; ok "curl has followed it as server-sent events"
kill $tail $sse 2>/dev/null || true
block $tour "Five minutes with curl" 5 | as cursor follow &
cursor=$!
holds "$work/cursor.out" RUN_FINISHED 2; ok "a reader continues from its cursor"
kill $cursor 2>/dev/null || true
block $tour "Five minutes with curl" 6 | as conflict
jq -e -s '.[1].status == 409 and .[1].type == "/problems/run-active" and .[2].status == "finished"' "$work/conflict.out" >/dev/null; ok "a second run is refused while one is active"

block $tour "Let Threadline run your agent" 1 | (unset THREADLINE_URL; THREADLINE=$program PACE=0 as agents follow) &
agents=$!
holds "$work/agents.out" '^That was a run in the thread'; ok "an agent under uvicorn is run by a Threadline of its own"
kill $agents; wait $agents || true
block $tour "Let Threadline run your agent" 1 toml >"$work/agents.toml"
THREADLINE_DEVELOPMENT=true CHAT_API_KEY=key "$program" config --check --config "$work/agents.toml" >"$work/config.out"; ok "the configuration of the tour is valid"
block $tour "Let Threadline run your agent" 2 | as trips
jq -e '.agentId == "trips" and .origin == "api"' "$work/trips.out" >/dev/null; ok "an agent is added over the API"
[ "$(block $tour "Push from your own program" 1)" = "$(snippet "Python, no packages")" ]
block $tour "Push from your own program" 1 | as push
grep 'is finished' "$work/push.out" >/dev/null; ok "a run is pushed with Python's standard library"

# The blocks of docs/agent-data.md.
kept=docs/agent-data.md
block $kept "Key-value entries" 1 | as put
jq -e '.results | map(.tag | length > 0) == [true, true]' "$work/put.out" >/dev/null; ok "entries are stored"
block $kept "Key-value entries" 2 | as found
jq -e '[.results[0].item.value.stars, .results[1].items[0].score, .results[2].namespaces] == [5, 0.5, [["memories", "ann"]]]' "$work/found.out" >/dev/null; ok "entries are found"
block $kept "Item lists" 1 | as lists
jq -e -s '[.[1].count, .[2].items[1].item.content, .[3].items[0].pos, .[3].count] == [2, "Hello", 2, 1]' "$work/lists.out" >/dev/null; ok "items are added, read and removed"
block $kept "Checkpoints" 1 | as states
jq -e -s '[.[1].id, .[2].blobs[0].data, .[2].writes[0].taskId, .[3].checkpoints[0].metadata.step] == ["step-1", "WyJIaSJd", "task-1", 1]' "$work/states.out" >/dev/null; ok "a checkpoint is stored, read and listed"

# A chat with the demo agent over the API.
curl -fsS "$url/v1/threads" -d '{"threadId":"chat"}' >/dev/null
say() { curl -fsS "$url/v1/threads/chat/runs" -d '{"agentId":"demo","runId":"'"$1"'","input":{"messages":[{"role":"user","content":"'"$2"'"}]}}' >/dev/null; }
for words in Hello Again; do
  say $words $words
  timeout 60 "$program" tail chat --run $words --raw >"$work/$words.ndjson" 2>"$work/$words.log"
  tail -n1 "$work/$words.ndjson" | jq -e '.type == "RUN_FINISHED"' >/dev/null; ok "the demo agent answers to $words"
done
curl -fsS "$url/v1/threads/chat/messages" >"$work/messages.json"
jq -e '[.messages[] | select(.role == "user").content] == ["Hello", "Again"]' "$work/messages.json" >/dev/null; ok "the user's messages are stored"
jq -e '[.messages[] | select(.role == "assistant")] | length >= 2' "$work/messages.json" >/dev/null; ok "the agent's messages are stored"
curl -fsS "$url/v1/threads/chat/state" | jq -e '.state.plan.runs == 2' >/dev/null; ok "the state continues from run to run"
timeout 60 "$program" run chat "Hello again" 2>/dev/null | grep . >/dev/null; ok "threadline run shows an answer"
curl -fsS "$url/agui/demo" -d '{"threadId":"chat","messages":[{"role":"user","content":"Over AG-UI"}]}' | tail -n 2 | grep RUN_FINISHED >/dev/null; ok "an AG-UI client gets the run's events"

curl -fsS "$url/v1/threads" -d '{"threadId":"away"}' >/dev/null
# One reader follows the whole run; the other one disconnects after 250 events and reconnects later.
timeout 60 "$program" tail away --json >"$work/follower.ndjson" 2>"$work/follower.log" &
follower=$!
recording=$root/examples/pydantic-ai/recorded-run.ndjson
total=$(wc -l <"$recording")
half() { head -n 300 "$recording"; sleep 1; tail -n +301 "$recording"; }
half | curl -fsS -T - -X POST -H 'Content-Type: application/x-ndjson' "$url/v1/threads/away/runs?runId=first" >"$work/run.json" &
upload=$!
(timeout 60 "$program" tail away --json 2>"$work/away.log" || true) | head -n 250 >"$work/away.ndjson"
wait $upload || fail "the run was not accepted: $(cat "$work/run.json")"
jq -e '.run.status == "finished"' "$work/run.json" >/dev/null; ok "a recorded run of $total events is streamed in"
after=$(tail -n1 "$work/away.ndjson" | jq .seq)
epoch=$(curl -fsS "$url/v1/threads/away" | jq -r .epoch)
timeout 60 "$program" tail away --json --after "$after" --epoch "$epoch" --until-caught-up >>"$work/away.ndjson" 2>>"$work/away.log"
for _ in $(seq 100); do [ "$(wc -l <"$work/follower.ndjson")" -ge "$total" ] && break; sleep 0.1; done
kill $follower 2>/dev/null || true
cmp "$work/follower.ndjson" "$work/away.ndjson"; ok "a reader that was disconnected for half of the run has received the same events"
curl -fsS -H 'Accept: application/x-ndjson' "$url/v1/threads/away/events" | cmp - "$work/follower.ndjson"; ok "the log contains the same events"
jq -e -s 'map(.seq) == [range(1; length + 1)]' "$work/follower.ndjson" >/dev/null; ok "seqs are dense"
sed 's/^{"seq":[0-9]*,"runId":"first","at":"[^"]*","event"://; s/}$//' "$work/follower.ndjson" | cmp - "$recording"; ok "payloads are kept byte for byte"

curl -fsS -T "$recording" -X POST -H 'Content-Type: application/x-ndjson' "$url/v1/threads/away/runs?runId=first" >"$work/again.json"
curl -fsS "$url/v1/threads/away" | jq -e ".tail == $total" >/dev/null; ok "the same run sent again changes nothing"

python=$("$root/scripts/example-venv.sh")
timeout 120 "$python" "$root/examples/pydantic-ai/stream_live.py" --url "$url" --thread live --delay 0 >"$work/live.out" 2>"$work/live.log"
curl -fsS "$url/v1/threads/live/runs" | jq -e '.runs[0].status == "finished" and .runs[0].producerSeq > 100' >/dev/null; ok "a pydantic-ai agent streams live into a thread"
timeout 60 "$python" "$root/examples/pydantic-ai/record.py" --help >/dev/null; ok "the recorder runs"
THREADLINE=$program PACE=0 timeout 120 "$root/examples/pydantic-ai/run.sh" --once >"$work/run.out" 2>"$work/run.log"
grep -q 'RUN_FINISHED' "$work/run.out"; ok "an agent under uvicorn is run by this Threadline"

"$program" threads | grep 'My first thread' >/dev/null; ok "threads are listed"
kill -INT $server; wait $server; ok "Ctrl-C ends the server with exit code 0"
server=""

# The blocks of "Authentication" in OPERATIONS.md, verbatim and in one shell.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port
{ for n in 1 2 3; do block OPERATIONS.md Authentication $n; [ $n -gt 1 ] || echo 'server=$!'; [ $n -ne 2 ] || echo echo; done; echo 'kill -INT $server; wait $server'; } | here >"$work/people.sh"
grep -q 'keys create backend' "$work/people.sh"
(cd "$work" && THREADLINE_URL=$url THREADLINE_LISTEN=127.0.0.1:$port THREADLINE_DATA=$work/people timeout 120 bash -euo pipefail people.sh >people.out 2>people.log)
grep '"token"' "$work/people.out" | jq -e '.token | length > 100' >/dev/null; ok "\"Authentication\" gives a user a token"
grep -q id.example.com "$work/people.out"; ok "\"Authentication\" lets an identity provider sign tokens"

# Credentials: the operator's key, a backend's key, a user's token, and a backend that authenticates its users.
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
[ "$(status "$url/v1/threads")" = 401 ]; ok "a request without a key is refused"
backend=$("$program" keys create backend 2>/dev/null)
"$program" keys list | grep '^backend  read,chat,approve,produce,agents,tokens' >/dev/null; ok "a backend gets a key"
token=$(curl -fsS "$url/v1/tokens" -H "Authorization: Bearer $backend" -d '{"userId":"alice"}' | jq -r .token)
curl -fsS "$url/v1/threads" -H "Authorization: Bearer $token" -d '{"threadId":"hers"}' | jq -e '.userId == "alice"' >/dev/null; ok "a user gets a token, and a thread"
other=$("$program" token bob)
[ "$(status "$url/v1/threads/hers" -H "Authorization: Bearer $other")" = 404 ]; ok "another user does not see it"
ticket=$(curl -fsS -X POST "$url/v1/socket-tickets" -H "Authorization: Bearer $token" | jq -r .ticket)
[ "$(status "$url/v1/socket?ticket=$ticket")" = 400 ] || fail "the ticket is not accepted: $(cat "$work/answer.json")"
[ "$(status "$url/v1/socket?ticket=$ticket")" = 401 ]; ok "a ticket is valid once"
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
"$program" audit | grep key.revoked >/dev/null; ok "the audit log records the revocation"
kill -INT $server; wait $server
server=""
# Every shell block and shell snippet has been run.
{ blocks_of README.md; blocks_of $tour; blocks_of $kept; } >"$work/wanted"
awk -F' [|] ' '/^## / { on = $0 == "## APIs" } on && $2 ~ /^`(curl|python3) / { sub(/^[|] /, "", $1); print "README.md | APIs | " $1 }' "$root/README.md" >>"$work/wanted"
left=$(grep -vxFf "$work/blocks" "$work/wanted" || true)
[ -z "$left" ] || fail "not run: $left"
ok "all $(wc -l <"$work/wanted") shell blocks and snippets of README.md, $tour and $kept were run"
echo "test result: ok. $passed passed; 0 failed"
