"""Autobahn's cases for WebSocket (RFC 6455), by kosoku: `autobahn.py echo|socket ADDRESS`.

`echo`: an endpoint that sends back what it gets, judged as Autobahn judges.
`socket`: /v1/socket, which does not echo. The cases that wait for no echo are judged: what the server says of its own accord
(frames of JSON) is left out of what was received, and everything else must be as Autobahn expects it, close codes included.

What is left out: 12 and 13 (compression, which is not offered), and 9 (time with large messages) unless CASES=all.
"""

import asyncio
import os
import sys

import kosoku

PASSED = {"OK", "NON_STRICT", "INFORMATIONAL"}
CLOSED = {"OK", "INFORMATIONAL"}


def name(behavior):
    return str(behavior).rpartition(".")[2].replace("-", "_").replace(" ", "_")


def judge_echo(case):
    return name(case.behavior), name(case.behavior_close)


def judge_socket(case):
    if any(event[0] == "message" for events in case.expected.values() for event in events):
        return None
    own = lambda event: event[0] == "message" and event[1].startswith('{"')
    received = [event for event in case.received if not own(event)]
    as_expected = [name(kind) for kind, events in case.expected.items() if events == received]
    informational = name(case.behavior) == "INFORMATIONAL"
    return "INFORMATIONAL" if informational else (as_expected + ["FAILED"])[0], name(case.behavior_close)


async def run(mode, address):
    left_out = ["12.*", "13.*"] + ([] if os.environ.get("CASES") == "all" else ["9.*"])
    try:
        cases = await kosoku.run_fuzzingclient(address, None, left_out, concurrency=16)
    except kosoku.FailureError as failure:
        cases = failure.results
    judge = judge_echo if mode == "echo" else judge_socket
    judged = [(case, judge(case)) for case in cases]
    judged = [(case, verdict) for case, verdict in judged if verdict]
    failed = [(case, verdict) for case, verdict in judged if verdict[0] not in PASSED or verdict[1] not in CLOSED]
    lenient = [case.case_id for case, verdict in judged if verdict[0] == "NON_STRICT"]
    for case, verdict in failed:
        print(f"{case.case_id} {verdict[0]}, close {verdict[1]} ({case.remote_close_code}): {case.description.strip()[:100]}")
        print(f"  expected {case.expected} {case.expected_close}")
        print(f"  received {str(case.received)[:300]} closed by us: {case.closed_by_me}: {case.result_close}")
    passed = len(judged) - len(failed)
    print(f"{mode}: {passed} of {len(judged)} cases passed (non-strict: {', '.join(lenient) or 'none'})")
    # A server that refuses everything must not pass for want of cases.
    return not failed and len(judged) >= (247 if mode == "echo" else 140)


mode, address = sys.argv[1:]
passed = asyncio.run(run(mode, address))
sys.stdout.flush()
# At once: the runner has threads of its own, which do not always survive the interpreter's usual end.
os._exit(0 if passed else 1)
