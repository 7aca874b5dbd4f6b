"""Asks an agent of the OpenAI Agents SDK in a thread. Each call is a process of its own, and continues the session of the last one.

usage: chat.py THREAD QUESTION

THREADLINE_URL and THREADLINE_API_KEY name the server (default: http://localhost:7420). MODEL names a model of OpenAI, such as
gpt-5-mini; without it a scripted model answers, offline.
"""

from __future__ import annotations

import asyncio
import os
import sys

from agents import Agent, Runner, function_tool, set_tracing_disabled
from threadline import AsyncThreadline, user
from threadline.openai_agents import ThreadlineSession

from model import scripted


@function_tool
def find_parcel(number: int) -> str:
    """The place where a parcel is."""
    return f"Parcel {number} is in Ghent, and arrives tomorrow."


async def main(thread_id: str, question: str) -> None:
    model = os.environ.get("MODEL") or scripted()
    agent = Agent("parcels", model=model, tools=[find_parcel], instructions="You find parcels. Look them up before you answer.")
    async with AsyncThreadline(os.environ.get("THREADLINE_URL", "http://localhost:7420")) as client:
        await client.threads.get_or_create(thread_id)
        # Items that the model is given again the next time. Users do not see them.
        session = ThreadlineSession(thread_id, client)
        print(f"{len(await session.get_items())} items in the session", flush=True)
        # Run that users follow while it is written.
        async with client.thread(thread_id).run(messages=[user(question)], agent_id="parcels") as run:
            streamed = Runner.run_streamed(agent, question, session=session)
            await run.pipe(streamed.stream_events())
        print(streamed.final_output, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if not os.environ.get("MODEL"):
        # Traces would be sent to OpenAI.
        set_tracing_disabled(True)
    asyncio.run(main(sys.argv[1], sys.argv[2]))
