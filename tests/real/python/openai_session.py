"""OpenAI's clients for Python, unchanged: the Responses client, and a session of the Agents SDK with a scripted model: `openai_session.py URL`."""

import asyncio
import contextlib
import io
import sys
from pathlib import Path

from agents import Agent, Model, ModelResponse, Runner, Usage
from agents.memory.openai_conversations_session import OpenAIConversationsSession
from openai import AsyncOpenAI, NotFoundError
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

client = AsyncOpenAI(base_url=f"{sys.argv[1]}/openai/v1", api_key="none")


class Scripted(Model):
    """Answers with the number of items that it was given."""

    async def get_response(self, system_instructions, input, *rest, **options):
        part = ResponseOutputText(type="output_text", text=f"{len(input)} items", annotations=[])
        message = ResponseOutputMessage(id="msg_x", type="message", role="assistant", status="completed", content=[part])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *rest, **options):
        raise NotImplementedError


async def session() -> None:
    agent = Agent(name="a", model=Scripted())
    kept = OpenAIConversationsSession(openai_client=client)
    answers = [(await Runner.run(agent, text, session=kept)).final_output for text in ("one", "two")]
    assert answers == ["1 items", "3 items"], answers
    items = await kept.get_items()
    assert [item["role"] for item in items] == ["user", "assistant", "user", "assistant"], items
    newest = await kept.pop_item()
    assert newest["content"][0]["text"] == "3 items", newest
    # Another process goes on with the conversation.
    again = OpenAIConversationsSession(conversation_id=await kept._get_session_id(), openai_client=client)
    assert len(await again.get_items()) == 3
    assert [item["role"] for item in await again.get_items(limit=2)] == ["assistant", "user"]
    await again.clear_session()
    assert await again.get_items() == []


async def responses() -> None:
    first = await client.responses.create(model="demo", input="Hello")
    assert first.status == "completed" and first.output_text, first
    numbers = []
    async with client.responses.stream(model="demo", input="Hello", previous_response_id=first.id) as stream:
        async for event in stream:
            numbers.append(event.sequence_number)
        final = await stream.get_final_response()
    assert numbers == list(range(len(numbers)))
    assert final.conversation.id == first.conversation.id
    rest = await client.responses.retrieve(final.id, stream=True, starting_after=3)
    assert [event.sequence_number async for event in rest] == numbers[4:]
    await client.responses.delete(first.id)
    try:
        await client.responses.retrieve(first.id)
    except NotFoundError as error:
        assert error.code == "response_not_found", error
    else:
        raise AssertionError("a deleted response is found")


async def page() -> None:
    """The block of docs/openai.md."""
    text = (Path(__file__).parents[3] / "docs" / "openai.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    assert "http://localhost:7420" in code
    code = code.replace("http://localhost:7420", sys.argv[1])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        await asyncio.to_thread(exec, code, {})
    assert printed.getvalue().strip(), "the answer has a text"


async def main() -> None:
    for case in (responses, session, page):
        await case()
        print(f"{case.__name__} passed", flush=True)
    print("# pass 3", flush=True)


asyncio.run(main())
