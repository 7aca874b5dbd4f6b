#!/usr/bin/env bash
# Serves the agent under uvicorn, lets Threadline run it, sends it a message and shows the run; then both stay up for
# further requests, until Ctrl-C. With --once the script exits after the first run.
#
#   THREADLINE_URL     a running Threadline server; by default one is started
#   THREADLINE_LISTEN  the address of a started server (127.0.0.1:7420)
#   THREADLINE         the program (target/release/threadline or target/debug/threadline)
#   PACE               milliseconds per token of the agent (20)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
thread=trip-$(date +%s)
work=$(mktemp -d)
pids=()
finish() {
  status=$?
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  if [ $status -ne 0 ] && [ $status -ne 130 ]; then cat "$work"/*.log >&2; fi
  rm -rf "$work"
  exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM

program=${THREADLINE:-}
for built in "$root/target/release/threadline" "$root/target/debug/threadline"; do
  if [ -z "$program" ] && [ -x "$built" ]; then program=$built; fi
done
[ -n "$program" ] || { echo "Build Threadline first: cargo build --release" >&2; exit 1; }

# The address that a server prints once it listens.
address_in() {
  for _ in $(seq 300); do
    grep -om1 'http://[0-9.]*:[0-9]*' "$1" && return
    sleep 0.1
  done
  return 1
}

python=$("$root/scripts/example-venv.sh")
"$python" "$here/serve.py" --port 0 --pace "${PACE:-20}" >"$work/agent.log" 2>&1 &
pids+=($!)
agent=$(address_in "$work/agent.log") || { echo "The agent did not start." >&2; exit 1; }
echo "The agent listens on $agent/."

if [ -n "${THREADLINE_URL:-}" ]; then
  url=$THREADLINE_URL
  curl -fsS -X PUT "$url/v1/agents/trips" -H 'Content-Type: application/json' -d "{\"url\":\"$agent/\"}" >/dev/null
else
  "$program" dev --listen "${THREADLINE_LISTEN:-127.0.0.1:7420}" --data "$work/data" --agent "trips=$agent/" \
    >"$work/threadline.log" 2>&1 &
  pids+=($!)
  url=$(address_in "$work/threadline.log") || { echo "Threadline did not start." >&2; exit 1; }
  export THREADLINE_URL=$url
fi
echo "Threadline listens on $url and knows the agent as trips."

ask() {
  curl -fsS "$url/v1/threads/$thread/runs" -H 'Content-Type: application/json' \
    -d "{\"agentId\":\"trips\",\"runId\":\"$1\",\"input\":{\"messages\":[{\"role\":\"user\",\"content\":\"$2\"}]}}" >/dev/null
}
curl -fsS "$url/v1/threads" -H 'Content-Type: application/json' -d "{\"threadId\":\"$thread\"}" >/dev/null
ask first "Plan a rainy Saturday in Ghent for two, please."
"$program" tail "$thread" --run first
if [ "${1:-}" = "--once" ]; then exit 0; fi

cat <<END

That was a run in the thread $thread. Try, in another terminal:

  the messages:    curl $url/v1/threads/$thread/messages
  the trip so far: curl $url/v1/threads/$thread/state
  another device:  $program tail $thread --url $url
  a follow-up:     curl $url/v1/threads/$thread/runs -d '{"agentId":"trips","input":{"messages":[{"role":"user","content":"How do we get home?"}]}}'
  disconnect in the middle, without losing the run:
                   curl -N $url/agui/trips -d '{"threadId":"$thread","messages":[{"role":"user","content":"And on Sunday?"}]}'

Ctrl-C stops the agent and the server started for it, and deletes its threads. A server at THREADLINE_URL keeps running.
END
wait "${pids[@]}"
