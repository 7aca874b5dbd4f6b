#!/usr/bin/env bash
# Starts three nodes with a Postgres and a Redis of their own, behind HAProxy with deploy/haproxy.cfg: the services of
# docker-compose.yml, without containers. All files are in a temporary directory, which is removed at the end.
#
#   scripts/cluster.sh [PATH-TO-THREADLINE]          until Ctrl-C; keys kill and start nodes (docs/recovery.md, "Try it")
#   scripts/cluster.sh PATH-TO-THREADLINE check      follows runs through the cluster, then ends
#
# THREADLINE_API_KEY is used if it is set; THREADLINE_LISTEN is the address of the balancer (default 127.0.0.1:7420).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=$(realpath "${1:-$root/target/release/threadline}")
check=${2:-}
[ -x "$program" ] || { echo "there is no $program: build it with cargo build --release" >&2; exit 1; }
for tool in redis-server haproxy curl python3; do
  command -v "$tool" >/dev/null || { echo "$tool is missing: make setup-test installs it" >&2; exit 1; }
done
postgres=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -n1 || true)
[ -n "$postgres" ] || { echo "Postgres is missing: make setup-test installs it" >&2; exit 1; }

work=$(mktemp -d)
chmod 711 "$work"
pids=()
node_pids=()
# Nodes are stopped first, so that they end their runs while the store is available. SIGINT has no drain delay, but a shell's background
# process ignores it unless it installs a handler: curl and HAProxy do not.
finish() {
  local status=$?
  trap - EXIT INT TERM
  set +e
  for pid in "${node_pids[@]}"; do kill -INT "$pid" 2>/dev/null; done
  for pid in "${node_pids[@]}"; do wait "$pid" 2>/dev/null; done
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill -TERM "${pids[i]}" 2>/dev/null && wait "${pids[i]}" 2>/dev/null
  done
  [ $status -eq 0 ] || tail -n 30 "$work"/*.log >&2
  rm -rf "$work"
  exit $status
}
trap finish EXIT
trap 'exit 0' INT TERM
trap 'echo "not ok - line $LINENO: $BASH_COMMAND" >&2' ERR

# Free ports outside of the range of ephemeral ports.
read -r pg redis agent n1 n2 n3 <<<"$(python3 - <<'PY'
import os, socket
ports, port = [], 20000 + os.getpid() % 6000 * 2
while len(ports) < 6:
    with socket.socket() as s:
        try:
            s.bind(("127.0.0.1", port)); ports.append(port)
        except OSError:
            pass
    port += 1
print(*ports)
PY
)"
until_ready() { # what, command
  for _ in $(seq 300); do
    if "${@:2}" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  echo "$1 did not become ready" >&2
  exit 1
}

# Postgres does not run as root.
as=()
mkdir "$work/pg"
if [ "$(id -u)" -eq 0 ]; then
  owner=$(id -u postgres >/dev/null 2>&1 && echo postgres || echo nobody)
  chown "$owner" "$work/pg"
  as=(setpriv --reuid "$owner" --regid "$(id -g "$owner")" --clear-groups)
fi
(cd "$work/pg" && "${as[@]}" "$postgres/initdb" -D "$work/pg/data" -U threadline --auth=trust -E UTF8 --locale=C >"$work/initdb.log")
(cd "$work/pg" && exec "${as[@]}" "$postgres/postgres" -D "$work/pg/data" -p "$pg" -c listen_addresses=127.0.0.1 \
  -c unix_socket_directories="$work/pg") >"$work/postgres.log" 2>&1 &
pids+=($!)
redis-server --port "$redis" --bind 127.0.0.1 --dir "$work" --save '' --appendonly no --maxmemory-policy noeviction \
  >"$work/redis.log" &
pids+=($!)
until_ready Postgres "$postgres/pg_isready" -q -h 127.0.0.1 -p "$pg" -U threadline -d postgres
"$postgres/createdb" -h 127.0.0.1 -p "$pg" -U threadline threadline
until_ready Redis redis-cli -p "$redis" ping

THREADLINE_API_KEY=${THREADLINE_API_KEY:-$(python3 -c 'import secrets; print(secrets.token_hex(32))')}
export THREADLINE_API_KEY
# Time that the balancer needs to notice that a node drains, in seconds.
export THREADLINE_DRAIN_DELAY=${THREADLINE_DRAIN_DELAY:-3}
export THREADLINE_STORE="postgres://threadline@127.0.0.1:$pg/threadline" THREADLINE_REDIS="redis://127.0.0.1:$redis/"
unset THREADLINE_DEVELOPMENT THREADLINE_USER THREADLINE_CONFIG
balancer=${THREADLINE_LISTEN:-127.0.0.1:7420}
nodes=("$n1" "$n2" "$n3")
# Agent that answers for forty seconds, and continues where it was cut. The check makes it answer faster.
python3 "$root/examples/storyteller.py" --port "$agent" ${check:+--pause 0.08} >"$work/agent.log" 2>&1 &
pids+=($!)
printf '[agents.story]\nurl = "http://127.0.0.1:%s/"\nrecovery = "continue"\n' "$agent" >"$work/threadline.toml"
node() { # number
  THREADLINE_LISTEN=127.0.0.1:${nodes[$1]} THREADLINE_CONFIG=$work/threadline.toml "$program" serve >>"$work/node$1.log" 2>&1 &
  node_pids[$1]=$!
}
for number in 0 1 2; do node $number; done
for number in 0 1 2; do until_ready "node $number" curl -fs "http://127.0.0.1:${nodes[number]}/readyz"; done
THREADLINE_BALANCER=$balancer THREADLINE_NODE1=127.0.0.1:$n1 THREADLINE_NODE2=127.0.0.1:$n2 \
  THREADLINE_NODE3=127.0.0.1:$n3 haproxy -db -f "$root/deploy/haproxy.cfg" >"$work/haproxy.log" 2>&1 &
pids+=($!)
export THREADLINE_URL=http://$balancer
until_ready HAProxy curl -fs "$THREADLINE_URL/readyz"

api() { curl -fsS -H "Authorization: Bearer $THREADLINE_API_KEY" -H 'Threadline-User: alice' "$@"; }
# Node that drives an answer, as `driving`. Only the metrics of each node say so: neither runs nor /v1/nodes do.
driver() {
  for driving in 0 1 2; do
    if [[ $(api -m 5 "http://127.0.0.1:${nodes[driving]}/metrics" 2>/dev/null) == *$'\nthreadline_agent_runs '[1-9]* ]]; then return; fi
  done
  return 1
}
kill_driver() {
  killed=$(date +%s%N)
  kill -KILL "${node_pids[driving]}"
  wait "${node_pids[driving]}" 2>/dev/null || true
}
since_kill() { echo $((($(date +%s%N) - killed) / 1000000)); }

if [ "$check" != check ]; then
  alive() { kill -0 "${node_pids[$1]}" 2>/dev/null; }
  list_nodes() {
    for number in 0 1 2; do
      echo "  node $number   http://127.0.0.1:${nodes[number]}   $(alive $number && echo "pid ${node_pids[number]}" || echo killed)"
    done
  }
  cat <<TEXT
Three nodes, Postgres on port $pg, Redis on $redis, and the balancer on $THREADLINE_URL

$(list_nodes)

  export THREADLINE_URL=$THREADLINE_URL THREADLINE_API_KEY=$THREADLINE_API_KEY
  $program run chat "Tell me" --agent story     # answers for forty seconds
  $program tail chat                            # from another node

The console on $THREADLINE_URL asks for this API key and for a user: any name will do.

  k, Enter   kill -9 the node that drives the answer; another node continues it
  r, Enter   start killed nodes again
  Ctrl-C     stop everything
TEXT
  # The balancer decides when the script ends, because nodes may be killed. A script in the background cannot read from the
  # terminal, and one without a terminal reads nothing: both only wait.
  trap '' TTIN
  while kill -0 "${pids[-1]}" 2>/dev/null; do
    status=0
    read -r -t 1 key 2>/dev/null || status=$?
    if [ $status -gt 128 ]; then continue; elif [ $status -gt 0 ]; then break; fi
    case $key in
      k)
        if ! driver; then echo "No node is driving an answer."; continue; fi
        kill_driver
        echo "Killed node $driving in the middle of an answer."
        if (until_ready "another node" driver); then driver && echo "Node $driving took over after $(since_kill) ms."; fi
        ;;
      r)
        for number in 0 1 2; do alive $number || node $number; done
        for number in 0 1 2; do until_ready "node $number" curl -fs "http://127.0.0.1:${nodes[number]}/readyz"; done
        list_nodes
        ;;
      *) list_nodes ;;
    esac
  done
  wait "${pids[-1]}"
  exit 0
fi

passed=0
ok() { passed=$((passed + 1)); echo "ok $passed - $1"; }
export THREADLINE_USER=alice
ok "three nodes are up behind $THREADLINE_URL"
if curl -fs "$THREADLINE_URL/v1/threads" >/dev/null; then false; fi; ok "a request without the key is refused"

# A run on one node is followed by a socket on another node and an event stream on the third.
api "$THREADLINE_URL/v1/threads" -d '{"threadId":"run"}' >/dev/null
timeout 90 "$program" tail run --raw --url "http://127.0.0.1:$n2" >"$work/socket.ndjson" 2>"$work/socket.log" &
socket=$!
api -N -H 'Accept: text/event-stream' "http://127.0.0.1:$n3/v1/threads/run/events" >"$work/stream.sse" 2>"$work/stream.log" &
stream=$!
timeout 90 "$program" tail run --raw >"$work/balanced.ndjson" 2>"$work/balanced.log" &
balanced=$!
pids+=("$socket" "$stream" "$balanced")
api -T "$root/examples/pydantic-ai/recorded-run.ndjson" -X POST -H 'Content-Type: application/x-ndjson' \
  "http://127.0.0.1:$n1/v1/threads/run/runs?runId=first" >/dev/null
events=$(grep -c . "$root/examples/pydantic-ai/recorded-run.ndjson")
api -H 'Accept: application/x-ndjson' "$THREADLINE_URL/v1/threads/run/events?limit=10000" >"$work/log.ndjson"
[ "$(wc -l <"$work/log.ndjson")" -ge "$events" ]; ok "a run of $events events was appended through one node"
all_seen() {
  [ "$(wc -l <"$work/socket.ndjson")" -ge "$events" ] && [ "$(wc -l <"$work/balanced.ndjson")" -ge "$events" ] &&
    [ "$(grep -c '^id: ' "$work/stream.sse")" -ge "$events" ]
}
until_ready "the readers" all_seen
cmp -s "$work/socket.ndjson" "$work/balanced.ndjson"; ok "readers on the other nodes and through the balancer received it, byte for byte"

# A streamed run through the balancer arrives while it is under way: nothing is buffered.
api "$THREADLINE_URL/v1/threads" -d '{"threadId":"live"}' >/dev/null
mkfifo "$work/live"
api -T - -X POST -H 'Content-Type: application/x-ndjson' "$THREADLINE_URL/v1/threads/live/runs?runId=r" <"$work/live" \
  >"$work/live.json" 2>"$work/live.log" &
live=$!
exec 9>"$work/live"
echo '{"type":"A"}' >&9
has() { api "$THREADLINE_URL/v1/threads/live/events" | grep -q "\"type\":\"$1\""; }
until_ready "the first event" has A; ok "a streamed request passes through unbuffered"
echo '{"type":"RUN_FINISHED"}' >&9
exec 9>&-
wait $live
has RUN_FINISHED; ok "a streamed request ends its run"

# A rolling restart: every node is stopped, one after the other, while requests continue.
for number in 0 1 2; do
  kill -TERM "${node_pids[number]}"
  for try in $(seq 40); do
    api "$THREADLINE_URL/v1/threads" -d "{\"threadId\":\"while-$number-$try\"}" >/dev/null
  done
  wait "${node_pids[number]}" || { echo "node $number did not end with exit code 0" >&2; false; }
  node $number
  until_ready "node $number" curl -fs "http://127.0.0.1:${nodes[number]}/readyz"
  sleep 2.5 # the balancer checks every second, and removes a node after two failed checks
done
ok "none of 120 requests during a rolling restart was refused"
api "$THREADLINE_URL/v1/threads/run/runs" -d '{"runId":"second","leaseSeconds":60}' >/dev/null
api "$THREADLINE_URL/v1/threads/run/runs/second/events" -d '[{"type":"X"}]' >/dev/null
api -X POST "$THREADLINE_URL/v1/threads/run/runs/second/finish" >/dev/null
more() { tail -n1 "$work/balanced.ndjson" | grep -q RUN_FINISHED && tail -n1 "$work/socket.ndjson" | grep -q RUN_FINISHED &&
  cmp -s "$work/socket.ndjson" "$work/balanced.ndjson" && [ "$(wc -l <"$work/balanced.ndjson")" -gt "$(wc -l <"$work/log.ndjson")" ]; }
until_ready "the readers after the restart" more; ok "readers reconnected and missed no event"

# An answer goes on when the node that drives it is killed. Each node has a follower that connected through the balancer, so
# one of them loses its connection.
api "$THREADLINE_URL/v1/threads" -d '{"threadId":"answer"}' >/dev/null
answer=$THREADLINE_URL/v1/threads/answer
followers=()
subscribed() {
  api "$answer/subscriptions" | grep -o '"nodeId":"[^"]*"' >"$work/subscribed"
  [ "$(wc -l <"$work/subscribed")" -ge ${#followers[@]} ]
}
spread() {
  followers+=("$work/follower${#followers[@]}.ndjson")
  timeout 90 "$program" tail answer --json >"${followers[-1]}" 2>"${followers[-1]%.ndjson}.log" &
  pids+=($!)
  until_ready "a follower" subscribed
  [ "$(sort -u "$work/subscribed" | wc -l)" -eq 3 ]
}
until_ready "a follower on each node" spread
api "$answer/runs" -d '{"runId":"told","agentId":"story","input":{"messages":[{"id":"q","role":"user","content":"Tell me"}]}}' >/dev/null
in_third_sentence() { [ "$(grep -c TEXT_MESSAGE_END "${followers[0]}")" -ge 2 ] && tail -n1 "${followers[0]}" | grep -q TEXT_MESSAGE_CONTENT; }
until_ready "the third sentence" in_third_sentence
driver
kill_driver
reads() { for try in $(seq 20); do api "$answer" >/dev/null || return; done; }
reads &
reads=$!
# All followers, that of the killed node as well, receive a word after the event of the new attempt: words before this event are of
# the old attempt.
goes_on() { for file in "${followers[@]}"; do sed '1,/threadline.attempt/d' "$file" | grep TEXT_MESSAGE_CONTENT || return; done; }
until_ready "the second attempt" goes_on
taken=$(since_kill)
wait $reads
ok "reads continue when a node is killed"
[ "$taken" -le 7000 ] || { echo "the answer went on after $taken ms" >&2; false; }
ok "the answer of the killed node went on after $taken ms, for ${#followers[@]} followers"
all_told() { for file in "${followers[@]}"; do tail -n1 "$file" | grep -q '"RUN_FINISHED"' || return; done; }
until_ready "the end of the answer" all_told
grep '"threadline.attempt"' "${followers[0]}" | grep '"kept":\["' >/dev/null
api "$answer/messages" | python3 -c 'import json, sys
for message in json.load(sys.stdin)["messages"][1:]: print(message["content"])' >"$work/told"
python3 "$root/examples/storyteller.py" --text | diff - "$work/told" >&2
ok "complete sentences were kept, and the thread has each word of the answer once"
api -H 'Accept: application/x-ndjson' "$answer/events?limit=10000" >"$work/log.ndjson"
for file in "${followers[@]}"; do cmp "$file" "$work/log.ndjson" >&2; done
ok "all followers have received the log, without a gap or a duplicate"
echo "all $passed checks passed"
