"""A trip-planning agent and its AG-UI events, one JSON object per line.

The agent is a real pydantic-ai agent with real tools. Only its model is scripted, so that
the example runs offline with the same output each time. To use a language model instead,
pass another model to `Agent`.
"""

import asyncio
import json
import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from ag_ui.core import CustomEvent, RunAgentInput, StateDeltaEvent, StateSnapshotEvent, UserMessage
from pydantic import BaseModel, Field
from pydantic_ai import Agent, RunContext, ToolReturn
from pydantic_ai.messages import ModelMessage, ModelResponse, UserPromptPart
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingCalls,
    DeltaThinkingPart,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)
from pydantic_ai.ui import StateDeps
from pydantic_ai.ui.ag_ui import AGUIAdapter

DEFAULT_PROMPT = "Plan a rainy Saturday in Ghent for two: one museum and a good lunch, please."

# Seconds per token of the scripted model; 0 for no delay.
seconds_per_token = 0.0


# Output of the scripted model, one list for each of its responses: to the first user message, and to all later
# ones.


@dataclass
class Think:
    text: str


@dataclass
class Say:
    text: str


@dataclass
class Call:
    tool: str
    args: dict[str, Any]


RESPONSES: list[list[Think | Say | Call]] = [
    [
        Think(
            'The request is: "{prompt}" Rain decides the order of the day, so the forecast comes '
            "first. If the afternoon is the wet half, the museum belongs there and the walk goes "
            "to the morning."
        ),
        Say("Let me look at the forecast first."),
        Call("get_forecast", {"city": "Ghent", "day": "Saturday"}),
    ],
    [
        Think(
            "Dry until noon, then steady rain until five. So: walk, lunch, museum. I need a museum "
            "and a place to eat near each other. I can ask for both at once."
        ),
        Call("find_places", {"city": "Ghent", "kind": "museum", "near": "Citadelpark"}),
        Call("find_places", {"city": "Ghent", "kind": "lunch", "near": "Citadelpark"}),
    ],
    [
        Say("Dry in the morning, wet after lunch. I'll write that down as a plan."),
        Call(
            "save_plan",
            {
                "title": "A rainy Saturday in Ghent",
                "stops": [
                    {"time": "10:00", "place": "Graslei and Korenlei", "note": "a walk while it is dry"},
                    {"time": "12:30", "place": "Café Parkzicht", "note": "table by the window"},
                    {"time": "14:15", "place": "Museum voor Schone Kunsten", "note": "closes at 18:00"},
                ],
            },
        ),
    ],
    [
        Call("book_stop", {"index": 1, "people": 2}),
    ],
    [
        Say(
            "Here is your Saturday 🌧️\n\n"
            "## A rainy Saturday in Ghent\n\n"
            "| Time | Where | Why |\n"
            "|------|-------|-----|\n"
            "| 10:00 | Graslei and Korenlei | dry until noon, so walk now |\n"
            "| 12:30 | Café Parkzicht | lunch, table for two, *booked* |\n"
            "| 14:15 | Museum voor Schone Kunsten | the rain starts, go inside |\n\n"
            "**Morning.** Start at the Graslei, cross the bridge, and come back along the Korenlei: "
            "about forty minutes without hurry. Then it is a slow half hour on foot to the park.\n\n"
            "**Lunch.** Café Parkzicht has a day menu for €24 a person. Your table is booked for "
            'half past twelve; say "Parkzicht, two, by the window" at the door.\n\n'
            "**Afternoon.** The museum is five minutes away, across the Citadelpark. Give the old "
            "masters an hour, and leave time for the rooms at the back: they are quiet, and the "
            "light is good even in the rain. It closes at six.\n\n"
            "Take an umbrella for the way back: 6 mm are expected between two and five. "
            "Shall I look up the tram home as well?"
        ),
    ],
]

FOLLOW_UPS: list[list[Think | Say | Call]] = [
    [
        Think('Now the request is: "{prompt}" The evening decides whether a walk home is an option.'),
        Call("get_forecast", {"city": "Ghent", "day": "Saturday"}),
    ],
    [
        Say(
            'You asked: "{prompt}"\n\n'
            "The evening is all but dry, so you can walk. If you would rather ride: tram 1 leaves from the park "
            "every ten minutes and is at the station in six. The plan for the day stays as it is."
        ),
    ],
]


def split_into_tokens(text: str) -> list[str]:
    """Cut a text into pieces of a few characters, as a language model would stream it."""
    return re.findall(r"\s*(?:\w{1,6}|[^\w\s])|\s+", text)


async def scripted_model(messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str | DeltaThinkingCalls | DeltaToolCalls]:
    prompts = [index for index, message in enumerate(messages) if user_prompt(message)]
    said_since = messages[prompts[-1] :] if prompts else messages
    turn = sum(isinstance(message, ModelResponse) for message in said_since)
    responses = FOLLOW_UPS if len(prompts) > 1 else RESPONSES
    prompt = user_prompt(messages[prompts[-1]]) if prompts else ""
    # A request after an interrupted answer gets the rest of it.
    for part, step in enumerate(responses[min(turn, len(responses) - 1)]):
        match step:
            case Think(text):
                for token in split_into_tokens(text.replace("{prompt}", prompt)):
                    yield {part: DeltaThinkingPart(content=token)}
                    await asyncio.sleep(seconds_per_token)
                yield {part: DeltaThinkingPart(signature=f"signature-of-thought-{turn}")}
            case Say(text):
                for token in split_into_tokens(text.replace("{prompt}", prompt)):
                    yield token
                    await asyncio.sleep(seconds_per_token)
            case Call(tool, args):
                yield {part: DeltaToolCall(name=tool)}
                for token in split_into_tokens(json.dumps(args, ensure_ascii=False)):
                    yield {part: DeltaToolCall(json_args=token)}
                    await asyncio.sleep(seconds_per_token)


def user_prompt(message: ModelMessage) -> str:
    """The user's text in a message; empty if it is not a user message."""
    return next((str(part.content) for part in message.parts if isinstance(part, UserPromptPart)), "")


# The agent. `Trip` is its shared state: user interfaces see it through state events.


class Stop(BaseModel):
    time: str
    place: str
    note: str
    status: str = "planned"


class Trip(BaseModel):
    title: str = ""
    stops: list[Stop] = Field(default_factory=list)


agent = Agent(
    FunctionModel(stream_function=scripted_model, model_name="scripted"),
    name="trip_planner",
    deps_type=StateDeps[Trip],
    instructions="You plan days out. Look things up before you promise them.",
)


@agent.tool_plain
async def get_forecast(city: str, day: str) -> dict[str, Any]:
    """The weather of a day, by part of the day."""
    return {
        "city": city,
        "day": day,
        "morning": {"temperatureC": 11, "rainMm": 0.0},
        "afternoon": {"temperatureC": 9, "rainMm": 6.0},
        "evening": {"temperatureC": 8, "rainMm": 0.4},
    }


@agent.tool_plain
async def find_places(city: str, kind: str, near: str) -> list[dict[str, Any]]:
    """Places of a kind near a spot, the nearest first."""
    places = {
        "museum": [
            {"name": "Museum voor Schone Kunsten", "walkMinutes": 5, "priceEur": 15},
            {"name": "S.M.A.K.", "walkMinutes": 6, "priceEur": 15},
        ],
        "lunch": [
            {"name": "Café Parkzicht", "walkMinutes": 4, "priceEur": 24},
            {"name": "Soep & Brood", "walkMinutes": 9, "priceEur": 12},
        ],
    }
    return places.get(kind, [])


@agent.tool
async def save_plan(ctx: RunContext[StateDeps[Trip]], title: str, stops: list[Stop]) -> ToolReturn:
    """Save the plan of the day."""
    ctx.deps.state = Trip(title=title, stops=stops)
    return ToolReturn(
        return_value=f"Saved {len(stops)} stops.",
        metadata=[StateSnapshotEvent(snapshot=ctx.deps.state.model_dump())],
    )


@agent.tool
async def book_stop(ctx: RunContext[StateDeps[Trip]], index: int, people: int) -> ToolReturn:
    """Book one stop of the plan."""
    stop = ctx.deps.state.stops[index]
    stop.status = "booked"
    patch = [{"op": "replace", "path": f"/stops/{index}/status", "value": stop.status}]
    return ToolReturn(
        return_value=f"Booked {stop.place} at {stop.time} for {people}.",
        metadata=[
            StateDeltaEvent(delta=patch),
            CustomEvent(name="booking", value={"place": stop.place, "time": stop.time, "people": people}),
        ],
    )


async def run_as_ndjson(prompt: str, thread_id: str, run_id: str) -> AsyncGenerator[str, None]:
    """Run the agent and yield its AG-UI events: the adapter's SSE data, one line per event."""
    run_input = RunAgentInput(
        thread_id=thread_id,
        run_id=run_id,
        state={},
        messages=[UserMessage(id=str(uuid.uuid4()), content=prompt)],
        tools=[],
        context=[],
        forwarded_props={},
    )
    adapter = AGUIAdapter(agent, run_input)
    async with aclosing(adapter.run_stream(deps=StateDeps(Trip()))) as events:
        async for frame in adapter.encode_stream(events):
            yield frame.removeprefix("data: ").removesuffix("\n\n") + "\n"
