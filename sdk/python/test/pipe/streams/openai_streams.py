"""Streams of the packages of OpenAI: chunks and events as their models parse them, and runs of agents."""

import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, RunConfig, Runner, function_tool, set_tracing_disabled
from agents.models.interface import Model
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from collecting import write
from httpx import AsyncClient, MockTransport, Request, Response
from openai import AsyncOpenAI

set_tracing_disabled(True)


def client(*answers: list[dict[str, Any]], named: bool = False) -> AsyncOpenAI:
    """A client of an endpoint that gives one answer after the other, as server-sent events."""
    left = list(answers)

    def answer(request: Request) -> Response:
        events = left.pop(0)
        name = "event: {type}\n" if named else ""
        lines = [name.format(**event) + f"data: {json.dumps(event)}\n\n" for event in events]
        lines += [] if named else ["data: [DONE]\n\n"]
        return Response(200, headers={"content-type": "text/event-stream"}, text="".join(lines))

    http = AsyncClient(transport=MockTransport(answer))
    return AsyncOpenAI(api_key="none", base_url="http://127.0.0.1/v1", http_client=http, max_retries=0)


def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}


def tool(index: int, call_id: str | None, name: str | None, args: str) -> dict[str, Any]:
    function = {"arguments": args, **({"name": name} if name else {})}
    return {"index": index, **({"id": call_id, "type": "function"} if call_id else {}), "function": function}


CHAT = [
    chunk({"role": "assistant", "content": "", "reasoning_content": "Hm"}),
    chunk({"content": "Let me"}),
    chunk({"content": " see."}),
    chunk({"tool_calls": [tool(0, "call-1", "look", '{"id":')]}),
    chunk({"tool_calls": [tool(0, None, None, " 7}"), tool(1, "call-2", "look", "")]}),
    chunk({"tool_calls": [tool(1, None, None, '{"id": 8}')]}),
    chunk({}, "tool_calls"),
    {**chunk({}), "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
]
ANSWER = [chunk({"role": "assistant", "content": "They are"}), chunk({"content": " there."}), chunk({}, "stop")]


async def chat(answer: list[dict[str, Any]]) -> AsyncIterator[object]:
    messages: Any = [{"role": "user", "content": "Where are my parcels?"}]
    async for item in await client(answer).chat.completions.create(model="m", messages=messages, stream=True):
        yield item


def response(output: list[dict[str, Any]], status: str = "completed") -> dict[str, Any]:
    return {
        **{"id": "resp-1", "object": "response", "created_at": 1, "status": status, "model": "m", "output": output},
        **{"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None},
        **{"instructions": None, "metadata": {}, "temperature": 1, "top_p": 1},
    }


def events_of(*items: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a response that has these items."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": response([], "in_progress")}]
    for at, item in enumerate(items):
        place = {"output_index": at, "item_id": item["id"]}
        empty = {"message": {"content": []}, "function_call": {"arguments": ""}, "reasoning": {"summary": []}}
        begun = {**item, **empty.get(item["type"], {}), "status": "in_progress"}
        events.append({"type": "response.output_item.added", "output_index": at, "item": begun})
        if item["type"] == "message":
            text = item["content"][0]["text"]
            place["content_index"] = 0
            for piece in (text[:4], text[4:]):
                events.append({"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []})
            events.append({"type": "response.output_text.done", **place, "text": text, "logprobs": []})
        elif item["type"] == "function_call":
            for piece in (item["arguments"][:3], item["arguments"][3:]):
                events.append({"type": "response.function_call_arguments.delta", **place, "delta": piece})
            done = {"arguments": item["arguments"], "name": item["name"]}
            events.append({"type": "response.function_call_arguments.done", **place, **done})
        elif item["type"] == "reasoning":
            for number, part in enumerate(item["summary"]):
                place["summary_index"] = number
                events.append({"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}})
                events.append({"type": "response.reasoning_summary_text.delta", **place, "delta": part["text"]})
                events.append({"type": "response.reasoning_summary_text.done", **place, "text": part["text"]})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": "response.completed", "response": response(list(items))})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {"id": "msg-1", "type": "message", "role": "assistant", "status": "completed", "content": content}


def called(call_id: str, name: str, args: str) -> dict[str, Any]:
    named = {"call_id": call_id, "name": name, "arguments": args}
    return {"id": f"fc-{call_id}", "type": "function_call", "status": "completed", **named}


THOUGHT = {
    "id": "rs-1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Hm"}, {"type": "summary_text", "text": "Well"}],
}
SEARCHED = {
    "id": "ws-1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "parcel"},
}
CALLS = (THOUGHT, message("Let me see."), called("call-1", "look", '{"id": 7}'), called("call-2", "look", '{"id": 8}'))


async def responses(*events: dict[str, Any]) -> AsyncIterator[object]:
    async for item in await client(list(events), named=True).responses.create(model="m", input="x", stream=True):
        yield item


FAILED = [
    *events_of(message("Let me see."))[:3],
    {
        "type": "response.failed",
        "sequence_number": 3,
        "response": {**response([], "failed"), "error": {"code": "server_error", "message": "the model is away"}},
    },
]


@function_tool
def look(id: int) -> str:
    """Looks where a parcel is."""
    return f"at {id}"


async def run(agent: Agent[Any]) -> AsyncIterator[object]:
    async for item in Runner.run_streamed(agent, "Where are my parcels?", run_config=RunConfig()).stream_events():
        yield item


def over_responses(*answers: list[dict[str, Any]]) -> Model:
    from agents.models.openai_responses import OpenAIResponsesModel

    return OpenAIResponsesModel(model="m", openai_client=client(*answers, named=True))


def of_responses() -> Agent[Any]:
    model = over_responses(events_of(*CALLS), events_of(message("They are there.")))
    return Agent(name="trips", model=model, tools=[look])


def of_chat() -> Agent[Any]:
    model = OpenAIChatCompletionsModel(model="m", openai_client=client(CHAT, ANSWER))
    return Agent(name="trips", model=model, tools=[look])


def handing_off() -> Agent[Any]:
    desk = Agent(name="desk", model=over_responses(events_of(message("Here is the desk."))))
    handing = over_responses(events_of(called("call-1", "transfer_to_desk", "{}")))
    return Agent(name="trips", model=handing, handoffs=[desk])


write(
    {
        "chat": lambda: chat(CHAT),
        "answer": lambda: chat(ANSWER),
        "responses": lambda: responses(*events_of(*CALLS, SEARCHED)),
        "failed": lambda: responses(*FAILED),
        "agent": lambda: run(of_responses()),
        "agent over chat": lambda: run(of_chat()),
        "handoff": lambda: run(handing_off()),
    }
)
