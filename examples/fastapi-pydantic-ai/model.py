"""A scripted model: it looks for the parcels that a question names, and then says where they are."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

from pydantic_ai.messages import ModelMessage, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel


async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    questions = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    found = [str(part.content) for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    numbers = re.findall(r"\d+", str(questions[-1].content))
    if numbers and not found:
        for at, number in enumerate(numbers):
            yield {at: DeltaToolCall(name="find_parcel", json_args=f'{{"number": {number}}}')}
        return
    for text in (*found, f"Questions in this chat: {len(questions)}."):
        for word in text.split():
            yield f"{word} "


scripted = FunctionModel(stream_function=stream, model_name="scripted")
