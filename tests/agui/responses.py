"""Accumulates streams of responses with OpenAI's package for Python. Reads one stream a line, its text as a JSON string, and writes
one line for each: the response of the last event, `[response]`, `[]` for a stream that has not ended, or `{"error"}` for a stream
that the package refuses. A line with a list has items of conversations, and is answered with `[]` or `{"error"}`."""

import json
import sys

import httpx2
from openai import OpenAI
from openai.types.conversations import ConversationItem
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

SCHEMA = TypeAdapter(ResponseStreamEvent)
ITEM = TypeAdapter(ConversationItem)
ENDS = ("response.completed", "response.failed", "response.incomplete")


def client_of(text):
    headers = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, headers=headers, content=text.encode()))
    return OpenAI(
        api_key="k", base_url="http://localhost/v1", http_client=httpx2.Client(transport=transport), max_retries=0
    )


def plain(response):
    response = response.to_dict(mode="python")
    for item in response["output"]:
        item.pop("parsed_arguments", None)
        for part in item.get("content") or []:
            part.pop("parsed", None)
    return response


def check(frame):
    """Refuses an event that is not of its type: the client itself does not look."""
    event = json.loads(frame.split("\ndata: ", 1)[1])
    error = event.get("response", {}).get("error")
    if error:
        # Agents have codes of their own.
        error["code"] = "server_error"
    SCHEMA.validate_python(event)


for line in sys.stdin:
    text = json.loads(line)
    ended = []
    try:
        if isinstance(text, list):
            for item in text:
                ITEM.validate_python(item)
            print("[]", flush=True)
            continue
        for frame in text.split("\n\n")[:-1]:
            check(frame)
        with client_of(text).responses.stream(model="agent", input="hi") as stream:
            for event in stream:
                if event.type in ENDS:
                    ended.append(plain(event.response))
            if ended and ended[0]["status"] == "completed":
                ended.append(plain(stream.get_final_response()))
        print(json.dumps(ended), flush=True)
    except Exception as error:
        print(json.dumps({"error": repr(error)}), flush=True)
