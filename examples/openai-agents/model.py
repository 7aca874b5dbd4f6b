"""A scripted model, as an endpoint for chat completions inside the process: it looks for a parcel, and then says where it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
from agents import OpenAIChatCompletionsModel
from openai import AsyncOpenAI


def deltas(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The pieces of the answer to these messages."""
    questions = [message["content"] for message in messages if message["role"] == "user"]
    last = messages[-1]
    number = re.search(r"\d+", questions[-1])
    if number and last["role"] == "user":
        call = {"name": "find_parcel", "arguments": json.dumps({"number": int(number[0])})}
        yield {"role": "assistant", "tool_calls": [{"index": 0, "id": f"call-{len(messages)}", "type": "function", "function": call}]}
        return
    found = last["content"] if last["role"] == "tool" else "Which parcel?"
    for word in f"{found} Questions in this chat: {len(questions)}.".split():
        yield {"role": "assistant", "content": f"{word} "}


def respond(request: httpx.Request) -> httpx.Response:
    lines = []
    for delta in deltas(json.loads(request.content)["messages"]):
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        lines.append({"id": "chunk", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": [choice]})
    text = "".join(f"data: {json.dumps(line)}\n\n" for line in lines)
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=f"{text}data: [DONE]\n\n")


def scripted() -> OpenAIChatCompletionsModel:
    network = httpx.AsyncClient(transport=httpx.MockTransport(respond))
    return OpenAIChatCompletionsModel("scripted", AsyncOpenAI(api_key="none", base_url="http://scripted/v1", http_client=network))
