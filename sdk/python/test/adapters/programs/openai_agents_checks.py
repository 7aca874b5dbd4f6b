"""Sessions of the OpenAI Agents SDK, as its runner uses them."""

import os
from typing import Any

from agents import Agent, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from agents.memory import Session
from agents.models.interface import Model
from checking import cancelled_write, held_client, main, run_example
from harness.documents import examples_of
from harness.proxy import Proxy
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from threadline import AsyncThreadline, user
from threadline._ids import new_id
from threadline.openai_agents import LIST, ThreadlineSession

set_tracing_disabled(True)


def said(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", role="assistant", status="completed", type="message", content=[content])


class Scripted(Model):
    """A model that says one thing after the other, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **more: Any) -> ModelResponse:
        self.asked.append(input)
        return ModelResponse(output=[self.answers.pop(0)], usage=Usage(), response_id=None)

    async def stream_response(self, system_instructions: Any, input: Any, *rest: Any, **more: Any) -> Any:
        answer = await self.get_response(system_instructions, input)
        response = Response.model_construct(id="r", output=answer.output, usage=None)
        yield ResponseCompletedEvent.model_construct(type="response.completed", response=response, sequence_number=0)


@function_tool
def look(id: int) -> str:
    """Looks for a parcel."""
    return f"at {id}"


def new_session(client: AsyncThreadline, session_id: str | None = None, **options: Any) -> ThreadlineSession:
    return ThreadlineSession(session_id or new_id(), client, user_id="ann", **options)


def texts(items: Any) -> list[Any]:
    shown = []
    for item in items:
        content = item.get("content")
        shown.append(content[0]["text"] if isinstance(content, list) else content or item["type"])
    return shown


async def check_a_conversation_goes_on_in_another_process() -> None:
    session_id = new_id()
    async with AsyncThreadline() as client:
        session = new_session(client, session_id)
        assert isinstance(session, Session)
        await Runner.run(Agent("trips", model=Scripted(said("Hello"))), "Hi", session=session)
    async with AsyncThreadline() as client:
        session = new_session(client, session_id)
        model = Scripted(said("Fine"))
        result = await Runner.run(Agent("trips", model=model), "How are you?", session=session)
        assert result.final_output == "Fine"
        assert texts(model.asked[0]) == ["Hi", "Hello", "How are you?"]
        assert texts(await session.get_items()) == ["Hi", "Hello", "How are you?", "Fine"]
        assert texts(await session.get_items(limit=2)) == ["How are you?", "Fine"]


async def check_calls_of_tools_are_kept() -> None:
    call = ResponseFunctionToolCall(call_id="c1", name="look", arguments='{"id": 7}', type="function_call")
    async with AsyncThreadline() as client:
        session = new_session(client)
        model = Scripted(call, said("There"))
        await Runner.run(Agent("trips", model=model, tools=[look]), "Where?", session=session)
        items = await session.get_items()
        assert [item.get("type") for item in items] == [None, "function_call", "function_call_output", "message"]
        assert items[2]["output"] == "at 7" and items[1]["call_id"] == items[2]["call_id"] == "c1"


async def check_items_are_those_that_were_added() -> None:
    async with AsyncThreadline() as client:
        session = new_session(client)
        assert await session.get_items() == [] and await session.pop_item() is None
        await session.clear_session()
        await session.add_items([])
        same = {"role": "user", "content": "a\ud800b", "n": 2**60 + 1}
        await session.add_items([same, same])
        await session.add_items([same, {"role": "user", "content": "last"}])
        assert await session.get_items() == [same, same, same, {"role": "user", "content": "last"}]
        assert await session.get_items(0) == [] and await session.get_items(1) == [{"role": "user", "content": "last"}]
        assert (await session.pop_item())["content"] == "last" and await session.pop_item() == same
        assert await session.get_items(9) == [same, same]
        await session.clear_session()
        assert await session.get_items() == [] and await session.pop_item() is None
        await session.add_items([{"content": n} for n in range(2_050)])
        assert [item["content"] for item in await session.get_items()] == list(range(2_050))
        assert [item["content"] for item in await session.get_items(1_100)] == list(range(950, 2_050))


async def check_the_settings_limit_what_is_read() -> None:
    class Settings:
        """The oldest version has no settings."""

        limit = 1

    try:
        from agents.memory import SessionSettings
    except ImportError:
        settings: Any = Settings()
    else:
        settings = SessionSettings(limit=1)
    async with AsyncThreadline() as client:
        session = new_session(client, session_settings=settings)
        await session.add_items([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
        assert texts(await session.get_items()) == ["b"] and texts(await session.get_items(2)) == ["a", "b"]
        model = Scripted(said("c"))
        await Runner.run(Agent("trips", model=model), "now", session=session)
        assert texts(model.asked[0]) == ["b", "now"]
        if isinstance(settings, Settings):
            return
        given = new_session(client, session_settings={"limit": 3}).session_settings
        assert given == SessionSettings(limit=3) and new_session(client).session_settings == SessionSettings()
        try:
            new_session(client, session_settings={"limitt": 1})
            raise AssertionError("a setting that does not exist was taken")
        except TypeError as error:
            assert "limitt" in str(error)


async def check_a_lost_answer_costs_nothing() -> None:
    proxy = Proxy(int(os.environ["THREADLINE_URL"].rsplit(":", 1)[1]))
    try:
        async with AsyncThreadline(proxy.url) as client:
            session = new_session(client)
            proxy.swallow_answers = 3
            await session.add_items([{"content": "a"}, {"content": "b"}])
            proxy.swallow_answers = 1
            assert await session.pop_item() == {"content": "b"}
            assert await session.get_items() == [{"content": "a"}] and proxy.swallow_answers == 0
    finally:
        proxy.end()


async def check_a_cancelled_write_has_ended() -> None:
    async with held_client() as (client, network):
        session = new_session(client)
        await session.add_items([{"content": "a"}])
        await cancelled_write(network, session.add_items([{"content": "b"}]))
        assert await session.get_items() == [{"content": "a"}, {"content": "b"}]


async def check_a_session_is_kept_inside_of_a_run_of_its_thread() -> None:
    async with AsyncThreadline() as client:
        thread = client.thread((await client.threads.create(user_id="ann")).thread_id)
        session = ThreadlineSession(thread.thread_id, client)
        async with thread.run(messages=[user("Hi")], agent_id="trips") as run:
            result = await Runner.run(Agent("trips", model=Scripted(said("Hello"))), "Hi", session=session)
            async with run.text() as text:
                await text.write(result.final_output)
        assert texts(await session.get_items()) == ["Hi", "Hello"]
        assert [one["content"] for one in (await thread.messages()).messages] == ["Hi", "Hello"]


async def check_the_thread_is_that_of_the_user() -> None:
    async with AsyncThreadline() as client:
        session = new_session(client)
        await session.add_items([{"content": "a"}])
        thread = client.thread(session.session_id)
        assert (await thread.get()).user_id == "ann" and (await thread.items(LIST).page()).count == 1
        await thread.delete()
        assert await session.get_items() == []


async def check_the_examples_of_the_page() -> None:
    start, around, fork = (example.replace("chat-7", chat) for chat in [new_id()] for example in examples_of("openai-agents.md"))
    names: dict[str, Any] = {"model": Scripted(said("Here"), said("There")), "user": user}
    await run_example("openai-agents.md", start, names)
    client, session = names["client"], names["session"]
    assert names["result"].final_output == "Here"
    await run_example("openai-agents.md", around, names)
    assert texts(await session.get_items()) == ["Where is my parcel?", "Here", "And the other one?", "There"]
    assert [one["content"] for one in (await names["thread"].messages()).messages] == ["And the other one?", "There"]
    await run_example("openai-agents.md", fork, names)
    copy = ThreadlineSession(names["forked"].thread_id, client)
    assert await copy.get_items() == await session.get_items()
    await client.aclose()


if __name__ == "__main__":
    main(globals())
