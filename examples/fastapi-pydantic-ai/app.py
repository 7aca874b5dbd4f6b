"""A FastAPI application with a pydantic-ai agent, whose chats are threads.

usage: app.py    PORT: the port, 0 for a free one (default: 8000)

The application answers in two ways:
  POST /chats/{chat}    the application produces the run itself, in its own request
  POST /agent           Threadline calls the agent, as an AG-UI endpoint

THREADLINE_URL and THREADLINE_API_KEY name the server (default: http://localhost:7420). MODEL names a model of pydantic-ai, such as
openai:gpt-5-mini; without it a scripted model answers, offline.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from threadline import AsyncRun, AsyncThreadline, user
from threadline.agui import AgentRun, RunAgentInput, mount
from threadline.problems import RunActive
from threadline.pydantic_ai import ThreadlineConversations

from model import scripted

agent = Agent(os.environ.get("MODEL") or scripted, instructions="You find parcels. Look them up before you answer.")
client = AsyncThreadline(os.environ.get("THREADLINE_URL", "http://localhost:7420"))
conversations = ThreadlineConversations(client)


@agent.tool_plain
async def find_parcel(number: int) -> str:
    """The place where a parcel is."""
    return f"Parcel {number} is in Ghent, and arrives tomorrow."


async def answer(run: AsyncRun | AgentRun, chat: str, question: str) -> None:
    """Streams the answer to everyone who follows the thread, and keeps what the model needs to know the next time."""
    conversation = await conversations.load(chat) or Conversation(conversation_id=chat)
    async with agent.run_stream_events(question, conversation=conversation) as events:
        await run.pipe(events)
    assert events.result is not None
    await conversations.save(events.result)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with client:
        yield


app = FastAPI(lifespan=lifespan)


class Question(BaseModel):
    text: str


@app.post("/chats/{chat}")
async def ask(chat: str, question: Question) -> dict[str, Any]:
    """Answers in a run of the thread `chat`, which the first question creates."""
    await client.threads.get_or_create(chat, agent_id="parcels")
    try:
        async with client.thread(chat).run(messages=[user(question.text)], agent_id="parcels") as run:
            await answer(run, chat, question.text)
    except RunActive as error:
        raise HTTPException(409, "The chat is being answered. Ask again after that.") from error
    return {"runId": run.run_id, "status": run.record.status}


async def parcels(input: RunAgentInput, run: AgentRun) -> None:
    """The agent as Threadline calls it: the thread exists, and its last message is the question."""
    await answer(run, input.thread_id, input.messages[-1]["content"])


mount(app, "/agent", parcels)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))
