"""A real pydantic-ai agent whose tool wants to be approved, as an AG-UI endpoint on a free port. `GET /sent` says what it did."""

import json
from collections.abc import AsyncIterator

import uvicorn
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

sent: list[str] = []


async def scripted_model(messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    results = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if results:
        yield "Done: " + "; ".join(str(result.content) for result in results)
    elif any("mail" in str(getattr(part, "content", "")) for part in messages[-1].parts):
        for index, name in enumerate(["ann", "bob"]):
            yield {index: DeltaToolCall(name="send_mail", json_args=json.dumps({"to": name}))}
    else:
        yield f"I have seen {len(messages)} messages."


agent = Agent(FunctionModel(stream_function=scripted_model), output_type=[str, DeferredToolRequests])


@agent.tool_plain(requires_approval=True)
async def send_mail(to: str) -> str:
    """Sends a mail."""
    sent.append(to)
    return f"sent to {to}"


async def run(request: Request) -> Response:
    return await AGUIAdapter.dispatch_request(request, agent=agent)


async def what_was_sent(_: Request) -> Response:
    return JSONResponse(sent)


app = Starlette(routes=[Route("/", run, methods=["POST"]), Route("/sent", what_was_sent)])

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=0, timeout_graceful_shutdown=1)
