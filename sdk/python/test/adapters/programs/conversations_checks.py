"""Conversations of pydantic-ai, as its agents and its store use them."""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from typing import Any

from checking import cancelled_write, held_client, main, run_example
from harness.documents import examples_of
from harness.proxy import Proxy
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import BinaryContent, ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from threadline import AsyncThreadline, user
from threadline._ids import new_id
from threadline.pydantic_ai import ENTRIES, LIST, RECORDS, ThreadlineConversations


def new_store(client: AsyncThreadline) -> ThreadlineConversations:
    return ThreadlineConversations(client, user_id="ann")


def asked(text: str) -> ModelMessage:
    return ModelRequest(parts=[UserPromptPart(content=text)])


def answered(text: str) -> ModelMessage:
    return ModelResponse(parts=[TextPart(text)])


def texts(messages: Any) -> list[Any]:
    return [part.content for message in messages for part in message.parts]


def echo(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Says how many messages it was sent."""
    return ModelResponse(parts=[TextPart(str(len(messages)))])


async def check_a_conversation_goes_on_in_another_process() -> None:
    agent = Agent(FunctionModel(echo))
    conversation_id = new_id()
    for number, (prompt, answer) in enumerate([("Hi", "1"), ("And?", "3"), ("Well?", "5")], 1):
        async with AsyncThreadline() as client:
            store = new_store(client)
            conversation = await store.load(conversation_id) or Conversation(conversation_id=conversation_id)
            result = await agent.run(prompt, conversation=conversation)
            assert result.output == answer
            assert len(await store.save(result)) == 2
            loaded = await store.load(conversation_id)
            assert loaded == result.conversation and loaded.usage.requests == number
            assert texts((await store.load(conversation_id, limit=3)).messages)[-2:] == [prompt, answer]


async def check_a_paused_run_is_resumed_from_the_store() -> None:
    agent = Agent(TestModel(), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def send(number: int) -> str:
        return f"sent {number}"

    conversation_id = new_id()
    async with AsyncThreadline() as client:
        result = await agent.run("Send it", conversation=Conversation(conversation_id=conversation_id))
        assert isinstance(result.output, DeferredToolRequests)
        await new_store(client).save(result)
    async with AsyncThreadline() as client:
        store = new_store(client)
        conversation = await store.load(conversation_id)
        assert conversation is not None and conversation.deferred_tool_requests == result.output
        approvals = {one.tool_call_id: True for one in conversation.deferred_tool_requests.approvals}
        answers = DeferredToolResults(approvals=approvals)
        result = await agent.run(conversation=conversation, deferred_tool_results=answers)
        assert result.output == '{"send":"sent 0"}'
        await store.save(result)
        assert (await store.load(conversation_id)).deferred_tool_requests is None


async def check_the_store_does_what_that_of_the_framework_does() -> None:
    """A seeded sequence of operations on both stores has the same results, and the same refusals."""
    seed = int(os.environ.get("THREADLINE_SEED", random.randrange(2**32)))
    try:
        async with AsyncThreadline() as client:
            await compare(seed, new_store(client), InMemoryConversationStore())
    except BaseException as error:
        raise AssertionError(f"THREADLINE_SEED={seed}") from error


async def compare(seed: int, ours: ConversationStore, theirs: ConversationStore) -> None:
    chances = random.Random(seed)
    name = f"compared-{seed}"
    ids = [f"{name}-{number}" for number in range(3)]

    async def both(act: Callable[[ConversationStore], Awaitable[Any]]) -> tuple[Any, Any]:
        results: list[Any] = []
        for store in (ours, theirs):
            try:
                results.append(await act(store))
            except (UserError, ConversationConflict) as error:
                results.append(type(error))
        return results[0], results[1]

    for step in range(40):
        conversation_id, other = chances.sample(ids, 2)
        at, cut, what = chances.randrange(5), chances.randrange(3), chances.randrange(9)

        async def save(store: ConversationStore) -> Any:
            conversation = await store.load(conversation_id) or Conversation(conversation_id=conversation_id)
            kept = conversation.messages[: len(conversation.messages) - (cut if what == 0 else 0)]
            conversation.messages = [*kept, asked(f"question {step}"), answered(f"answer {step}")]
            return len(await store.save(conversation, scope=name))

        async def branch(store: ConversationStore) -> Any:
            loaded = await store.load(conversation_id)
            revision = None if loaded is None else loaded.revision
            return texts((await store.branch(conversation_id, at=at, expected_revision=revision)).messages)

        async def back(store: ConversationStore) -> Any:
            record = await store.read_record(conversation_id)
            tip = record.branches[-1] if record and record.branches else "none"
            revision = record.revision if record else None
            return texts((await store.branch(conversation_id, from_entry=tip, expected_revision=revision)).messages)

        async def fork(store: ConversationStore) -> Any:
            return texts((await store.fork(conversation_id, at=at, new_conversation_id=other)).messages)

        async def delete(store: ConversationStore) -> Any:
            return await store.delete(conversation_id)

        act = [save, save, save, save, branch, branch, back, fork, delete][what]
        mine, expected = await both(act)
        assert mine == expected, (step, act.__name__)
        for one in ids:
            mine, expected = await both(lambda store, one=one: shown(store, one, at))
            assert mine == expected, (step, act.__name__)
    for store in (ours, theirs):
        listed = await store.list_conversations(scope=name)
        assert [one.updated_at for one in listed] == sorted((one.updated_at for one in listed), reverse=True)
    mine, expected = await both(lambda store: order(store, name))
    assert mine == expected


async def order(store: ConversationStore, name: str) -> list[str]:
    return [one.conversation_id for one in await store.list_conversations(scope=name, limit=2)]


async def shown(store: ConversationStore, conversation_id: str, limit: int) -> Any:
    """All that can be read of a conversation, without ids that a store chooses."""
    record = await store.read_record(conversation_id)
    entries = await store.load_entries(conversation_id)
    if record is None or entries is None:
        return record, entries
    assert [one.parent_id for one in entries] == [None, *(one.id for one in entries)][: len(entries)]
    branches = [texts([one.message for one in await store.read_history(tip)]) for tip in record.branches]
    last = await store.load(conversation_id, limit=limit)
    return texts([one.message for one in entries]), texts(last.messages), branches, record.scope, record.forked_from


async def check_a_stale_copy_is_refused() -> None:
    async with AsyncThreadline() as client:
        store = new_store(client)
        first = Conversation(conversation_id=new_id(), messages=[asked("a")])
        await store.save(first)
        copies = [await store.load(first.conversation_id) for _ in range(4)]
        for number, copy in enumerate(copies):
            copy.messages.append(answered(str(number)))
        results = await asyncio.gather(*(store.save(copy) for copy in copies), return_exceptions=True)
        assert sorted(type(one).__name__ for one in results) == [*["ConversationConflict"] * 3, "list"]
        assert len((await store.load(first.conversation_id)).messages) == 2
        stale = await store.load(first.conversation_id)
        await store.delete(first.conversation_id)
        for conversation in (stale, copies[0]):
            conversation.messages.append(asked("too late"))
            try:
                await store.save(conversation)
                raise AssertionError("a copy of what was deleted was saved")
            except ConversationConflict:
                pass
        await store.save(Conversation(conversation_id=first.conversation_id, messages=[asked("anew")]))
        assert texts((await store.load(first.conversation_id)).messages) == ["anew"]


async def check_a_save_that_is_repeated_is_the_same_save() -> None:
    """A caller that does not know the outcome of a save repeats it: the entries are there once."""
    async with AsyncThreadline() as client:
        store = new_store(client)
        files = [ModelRequest(parts=[UserPromptPart(content=[BinaryContent(bytes([n]) * 4_000_000, media_type="x/y")])]) for n in range(2)]
        for messages in ([asked("a"), answered("b")], files):
            conversation = Conversation(messages=messages)
            entries = await store.save(conversation)
            record = await store.read_record(conversation.conversation_id)
            before, tag = await items_of(client, conversation.conversation_id)
            for _ in range(2):
                await store.write_record(record, new_entries=entries, expected_revision=None)
            assert (before, tag) == await items_of(client, conversation.conversation_id)
            # The revision of another save.
            try:
                await store.write_record(record, new_entries=entries[:1], expected_revision=None)
                raise AssertionError("another save had the revision of the first one")
            except ConversationConflict:
                pass
        fork = await store.fork(conversation.conversation_id, at=1)
        record = await store.read_record(fork.conversation_id)
        await store.write_record(record, expected_revision=None)
        assert len((await items_of(client, fork.conversation_id))[0]) == 1


async def items_of(client: AsyncThreadline, conversation_id: str) -> Any:
    page = await client.thread(conversation_id).items(LIST).read()
    return [one.pos for one in page.items], page.tag


async def check_a_fork_outlives_its_origin() -> None:
    async with AsyncThreadline() as client:
        store = new_store(client)
        origin = Conversation(conversation_id=new_id(), messages=[asked("a"), answered("b"), asked("c")])
        entries = await store.save(origin)
        fork = await store.fork(origin.conversation_id, at=2)
        second = await store.fork(fork.conversation_id)
        assert [one.item["message"]["parts"][0]["content"] async for one in client.thread(fork.conversation_id).items(LIST)] == ["a", "b"]
        await store.delete(origin.conversation_id)
        await client.thread(fork.conversation_id).delete()
        assert await store.load(origin.conversation_id) is None and await store.load(fork.conversation_id) is None
        assert texts((await store.load(second.conversation_id)).messages) == ["a", "b"]
        assert (await store.read_entry(entries[1].id)).message == origin.messages[1]
        for entry_id in (entries[2].id, "unknown"):
            try:
                await store.read_entry(entry_id)
                raise AssertionError("an entry is left")
            except LookupError:
                pass
        await store.delete(second.conversation_id)
        assert (await client.kv.search((*ENTRIES, entries[0].id))).items == []
        assert await client.kv.get(RECORDS, second.conversation_id) is None


async def check_large_conversations() -> None:
    async with AsyncThreadline() as client:
        store = new_store(client)
        long = Conversation(messages=[asked(str(number)) for number in range(1_150)])
        entries = await store.save(long)
        assert (await store.load(long.conversation_id)).messages == long.messages
        assert texts((await store.load(long.conversation_id, limit=1_100)).messages) == [str(n) for n in range(50, 1_150)]
        assert texts([(await store.read_entry(entries[5].id)).message]) == ["5"]
        fork = await store.fork(long.conversation_id, at=1_100)
        await store.delete(long.conversation_id)
        assert len((await store.load(fork.conversation_id)).messages) == 1_100
        files = [ModelRequest(parts=[UserPromptPart(content=[BinaryContent(bytes([n]) * 4_000_000, media_type="x/y")])]) for n in range(2)]
        large = Conversation(messages=files)
        await store.save(large)
        assert (await store.load(large.conversation_id)).messages == files
        half = Conversation(messages=[asked("a\ud800b")])
        await store.save(half)
        assert (await store.load(half.conversation_id)).messages == half.messages


async def check_a_lost_answer_costs_nothing() -> None:
    proxy = Proxy(int(os.environ["THREADLINE_URL"].rsplit(":", 1)[1]))
    try:
        async with AsyncThreadline(proxy.url) as client:
            store = new_store(client)
            conversation = Conversation(messages=[asked("a"), answered("b")])
            proxy.swallow_answers = 3
            await store.save(conversation)
            proxy.swallow_answers = 1
            await store.branch(conversation.conversation_id, at=1, expected_revision=conversation.revision)
            assert proxy.swallow_answers == 0
            loaded = await store.load(conversation.conversation_id)
            assert texts(loaded.messages) == ["a"]
    finally:
        proxy.end()


async def check_a_cancelled_write_has_ended() -> None:
    async with held_client() as (client, network):
        store = new_store(client)
        conversation = Conversation(messages=[asked("a")])
        await store.save(conversation)
        record = await store.read_record(conversation.conversation_id)
        assert record is not None
        revision, record.revision, record.scope = record.revision, new_id(), "ours"
        await cancelled_write(network, store.write_record(record, expected_revision=revision))
        assert (await store.list_conversations(scope="ours"))[0].revision == record.revision


async def check_conversations_are_those_of_the_user() -> None:
    conversation = Conversation(messages=[asked("a")])
    async with AsyncThreadline(user="ann") as client:
        await ThreadlineConversations(client).save(conversation)
        assert (await client.thread(conversation.conversation_id).get()).user_id == "ann"
    async with AsyncThreadline(user="bob") as client:
        assert await ThreadlineConversations(client).load(conversation.conversation_id) is None
        assert await ThreadlineConversations(client).list_conversations() == []


async def check_the_examples_of_the_page() -> None:
    chat = new_id()
    start, around = (example.replace("chat-7", chat) for example in examples_of("pydantic-ai.md"))
    names: dict[str, Any] = {"model": FunctionModel(echo), "user": user}
    await run_example("pydantic-ai.md", start, names)
    await run_example("pydantic-ai.md", around, names)
    client, store = names["client"], names["store"]
    assert texts((await store.load(chat)).messages) == ["Where is my parcel?", "1", "And the other one?", "3"]
    assert [one["content"] for one in (await client.thread(chat).messages()).messages] == ["And the other one?", "3"]
    await client.aclose()


if __name__ == "__main__":
    main(globals())
