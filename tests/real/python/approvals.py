"""Approvals of a real agent's tool calls, through Threadline: `approvals.py URL AGENT AGENT_URL`."""

import sys

import httpx
from client import Chat, answer, ids, refusal, text_of, user

BASE, AGENT, AGENT_URL = sys.argv[1:4]


def sent() -> list[str]:
    return httpx.get(f"{AGENT_URL}sent").raise_for_status().json()


def main() -> None:
    first = Chat(BASE, AGENT)
    asked = first.run(user("Send the mails"))[-1].outcome.interrupts
    assert len(asked) == 2 and all(one.tool_call_id for one in asked) and sent() == []

    # Another device, with nothing but the thread's id: it sees both, and sends nothing but its answers.
    second = Chat(BASE, AGENT, first.thread_id)
    assert second.interrupts() == asked
    half = refusal(lambda: second.run(resume=[answer(asked[0], True)]))
    assert (half.status, half.problem["interruptIds"]) == (409, [asked[1].id]) and sent() == []
    before = second.messages()
    events = second.run(resume=[answer(asked[0], True), answer(asked[1], False)])
    assert events[-1].type == "RUN_FINISHED" and "sent to ann" in text_of(events), text_of(events)
    assert sent() == ["ann"] and second.interrupts() == []
    after = second.messages()
    assert ids(after)[: len(before)] == ids(before)
    assert {message.tool_call_id for message in after if message.role == "tool"} == {one.tool_call_id for one in asked}

    # The first device does not know of it. What it approves now would be sent twice.
    late = refusal(lambda: first.run(resume=[answer(one, True) for one in asked]))
    assert late.status == 409 and late.problem["type"].endswith("/problems/interrupt-settled")
    assert sent() == ["ann"]
    assert "I have seen" in text_of(first.run(user("Are you there?")))
    print("# pass 1")


if __name__ == "__main__":
    main()
