"""Asks an agent of Google's ADK in a session. Each call is a process of its own, and continues the session of the last one.

usage: chat.py USER SESSION QUESTION

THREADLINE_URL and THREADLINE_API_KEY name the server (default: http://localhost:7420). MODEL names a model of ADK, such as
gemini-2.5-flash; without it a scripted model answers, offline.
"""

from __future__ import annotations

import asyncio
import os
import sys

from google.adk.agents import Agent
from google.adk.runners import Runner
from google.adk.tools import ToolContext
from google.genai import types
from threadline import AsyncThreadline, user
from threadline.adk import ThreadlineSessionService, thread_id_of

from model import Scripted

APP = "parcels"


def find_parcel(number: int, tool_context: ToolContext) -> str:
    """The place where a parcel is."""
    # State with the prefix `user:` belongs to all sessions of the user.
    tool_context.state["user:looked_up"] = [*tool_context.state.get("user:looked_up", []), number]
    return f"Parcel {number} is in Ghent, and arrives tomorrow."


async def main(user_id: str, session_id: str, question: str) -> None:
    agent = Agent(
        name="parcels",
        model=os.environ.get("MODEL") or Scripted(),
        tools=[find_parcel],
        instruction="You find parcels. Look them up before you answer.",
    )
    async with AsyncThreadline(os.environ.get("THREADLINE_URL", "http://localhost:7420")) as client:
        service = ThreadlineSessionService(client)
        of = {"app_name": APP, "user_id": user_id, "session_id": session_id}
        session = await service.get_session(**of) or await service.create_session(**of)
        print(f"{len(session.events)} events in the session, looked up: {session.state.get('user:looked_up', [])}", flush=True)
        runner = Runner(agent=agent, app_name=APP, session_service=service)
        asked = types.Content(role="user", parts=[types.Part(text=question)])
        # The session is for the agent. The run of its thread is for users, who follow it.
        thread = client.thread(thread_id_of(APP, user_id, session_id))
        async with thread.run(messages=[user(question)], agent_id="parcels") as run:
            async for event in runner.run_async(user_id=user_id, session_id=session_id, new_message=asked):
                if event.is_final_response() and event.content and event.content.parts:
                    text = "".join(part.text or "" for part in event.content.parts)
                    async with run.text() as message:
                        await message.write(text)
                    print(text, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
