"""AG-UI's SDK for Python against the agents that Threadline runs: `cases.py URL AGENT,…`. All agents can do the first part."""

import sys
import threading
import traceback
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

from ag_ui.core import ToolMessage
from client import SHOW_MAP, Chat, answer, ids, refusal, text_of, user

BASE, AGENTS = sys.argv[1], sys.argv[2].split(",")
CASES: list[tuple[str, Callable[[], None]]] = []


def case(*agents: str) -> Callable[[Callable[[str], None]], None]:
    def add(check: Callable[[str], None]) -> None:
        for agent in agents:
            CASES.append((f"{agent}: {check.__name__.replace('_', ' ')}", lambda: check(agent)))

    return add


@case(*AGENTS)
def a_chat_continues_with_the_history_and_without(agent: str) -> None:
    chat = Chat(BASE, agent)
    hello = user("Good morning")
    events = chat.run(hello)
    assert events[-1].type == "RUN_FINISHED" and len(text_of(events)) > 20
    first = chat.messages()
    assert first[0] == hello and {"assistant", "tool", "reasoning"} <= {message.role for message in first}
    # With all that was said, as the SDK has it …
    more = user("And then?")
    events = chat.run(*first, more)
    assert [message.id for message in events[0].input.messages] == [more.id], "only what is new is in the log"
    second = chat.messages()
    assert ids(second)[: len(first) + 1] == [*ids(first), more.id]
    # … and with nothing but what is new.
    last = user("What did I say?")
    assert chat.run(last)[-1].type == "RUN_FINISHED"
    third = chat.messages()
    assert ids(third)[: len(second) + 1] == [*ids(second), last.id]
    assert third[: len(second)] == second


@case(*AGENTS)
def a_run_that_was_left_is_followed_to_its_end(agent: str) -> None:
    chat = Chat(BASE, agent)
    asked = chat.input(user("Good morning"))
    with chat.open(asked) as stream:
        seen = [next(stream) for _ in range(12)]
    at = seen[-1][0]
    # By the same request, and by following the run.
    with chat.open(asked, seen=at) as stream:
        rest = list(stream)
    assert rest == chat.follow(asked.run_id, at) and seen + rest == chat.log()
    assert rest[-1][1].type == "RUN_FINISHED"


@case(*AGENTS)
def threads_and_runs_are_listed(agent: str) -> None:
    chats = [Chat(BASE, agent) for _ in range(2)]
    for chat in chats:
        chat.run(user("Good morning"))
    listed = chats[0].http.get("/v1/threads", params={"limit": 500}).raise_for_status().json()["threads"]
    mine = [thread for thread in listed if thread["threadId"] in {chat.thread_id for chat in chats}]
    assert [thread["threadId"] for thread in mine] == [chat.thread_id for chat in reversed(chats)], "the newest first"
    assert all(thread["agentId"] == agent and thread["activeRun"] is None for thread in mine)
    runs = chats[0].get("/runs")["runs"]
    assert [run["status"] for run in runs] == ["finished"]


@case(*AGENTS)
def the_second_client_is_refused_and_a_stop_ends_the_run(agent: str) -> None:
    chat = Chat(BASE, agent)
    asked = chat.input(user("long Good morning"))
    with chat.open(asked) as stream:
        events = [next(stream)]
        refused = refusal(lambda: Chat(BASE, agent, chat.thread_id).run(user("me too")))
        assert refused.status == 409 and refused.problem["type"].endswith("/problems/run-active")
        assert refused.problem["run"]["runId"] == asked.run_id
        chat.http.post(f"/v1/threads/{chat.thread_id}/runs/{asked.run_id}/stop", json={}).raise_for_status()
        events += list(stream)
    # Its end is in words that the SDK knows, whatever was open.
    assert events == chat.log() and events[-1][1].type == "RUN_FINISHED"
    assert chat.get("/runs")["runs"][0]["status"] == "stopped"
    assert chat.run(user("Good morning"))[-1].type == "RUN_FINISHED"


@case("demo")
def an_interrupt_waits_for_another_client(agent: str) -> None:
    for approved, says in [(True, "published"), (False, "not")]:
        first = Chat(BASE, agent)
        (asked,) = first.run(user("approve this"))[-1].outcome.interrupts
        # Another device: all it has is the thread's id.
        second = Chat(BASE, agent, first.thread_id)
        assert second.interrupts() == [asked]
        assert second.log()[-1][1].outcome.interrupts == [asked]
        refused = refusal(lambda: second.run(user("something else")))
        assert refused.status == 409 and refused.problem["type"].endswith("/problems/interrupts-open")
        assert refused.problem["interruptIds"] == [asked.id]
        resume = second.input(resume=[answer(asked, approved)])
        with second.open(resume) as stream:
            events = [event for _, event in stream]
        assert events[-1].type == "RUN_FINISHED" and says in text_of(events), text_of(events)
        assert second.interrupts() == []
        # The answer was lost: the same request is the same run, another one is refused.
        with second.open(resume) as stream:
            assert [event for _, event in stream] == events
        refused = refusal(lambda: first.run(resume=[answer(asked, True)]))
        assert refused.status == 409 and refused.problem["type"].endswith("/problems/interrupt-settled")


@case("demo")
def a_tool_of_the_front_end_is_answered(agent: str) -> None:
    chat = Chat(BASE, agent)
    chat.run(user("show_map please"), tools=[SHOW_MAP])
    (pending,) = chat.get("/messages")["pendingToolCallIds"]
    (call,) = [call for message in chat.messages() for call in getattr(message, "tool_calls", None) or [] if call.id == pending]
    assert call.function.name == "show_map"
    result = ToolMessage(id=str(uuid.uuid4()), tool_call_id=call.id, content="a map of Ghent")
    events = chat.run(result, tools=[SHOW_MAP])
    assert "a map of Ghent" in text_of(events)
    assert chat.messages()[-1].role == "assistant" and chat.get("/messages")["pendingToolCallIds"] == []


@case("demo")
def a_run_that_fails_says_so(agent: str) -> None:
    chat = Chat(BASE, agent)
    events = chat.run(user("error"))
    assert events[-1].type == "RUN_ERROR" and events[-1].message
    assert chat.run(user("Good morning"))[-1].type == "RUN_FINISHED"


@case("nobody")
def an_agent_that_is_not_there(agent: str) -> None:
    chat = Chat(BASE, agent)
    refused = refusal(lambda: chat.run(user("hello")))
    assert refused.status == 404 and refused.problem["type"].endswith("/problems/agent-not-found")


def main() -> None:
    print(f"ag-ui-protocol {version('ag-ui-protocol')}")
    failed = threading.Event()

    def attempt(name: str, check: Callable[[], None]) -> bool:
        try:
            check()
            return True
        except BaseException:
            failed.set()
            print(f"not ok {name}\n{traceback.format_exc()}", flush=True)
            return False

    with ThreadPoolExecutor(len(CASES)) as pool:
        passed = sum(pool.map(lambda one: attempt(*one), CASES))
    print(f"# pass {passed}")
    sys.exit(failed.is_set())


if __name__ == "__main__":
    main()
