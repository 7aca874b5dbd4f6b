"""Sessions of ADK, as its runner and its own service use them."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from checking import cancelled_write, held_client, main, run_example
from google.adk.agents import Agent
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from harness.documents import examples_of
from harness.proxy import Proxy
from threadline import AsyncThreadline, ConfigError, user
from threadline._calls import Call
from threadline._ids import new_id
from threadline.adk import LIST, STALE_SESSION, ThreadlineSessionService, thread_id_of


class Scripted(BaseLlm):
    """A model that says one thing after the other, and keeps what it was asked."""

    model: str = "scripted"
    answers: list[Any] = []
    asked: list[Any] = []

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
        self.asked.append([part.text for content in llm_request.contents for part in content.parts or [] if part.text])
        yield LlmResponse(content=types.Content(role="model", parts=[self.answers.pop(0)]))


def said(text: str) -> types.Part:
    return types.Part(text=text)


def message(text: str) -> types.Content:
    return types.Content(role="user", parts=[said(text)])


def event(text: str, at: float = 1.0, **delta: Any) -> Event:
    names = {key.replace("_", ":", 1) if key.split("_")[0] in ("app", "user", "temp") else key: value for key, value in delta.items()}
    actions = EventActions(state_delta=names)
    return Event(author="trips", invocation_id="i", content=message(text), timestamp=at, actions=actions)


def texts(events: Any) -> list[Any]:
    return [part.text for one in events if one.content for part in one.content.parts if part.text]


async def turn(service: BaseSessionService, model: Scripted, session_id: str, text: str, **options: Any) -> list[str]:
    agent = Agent(name="trips", model=model, **options)
    runner = Runner(agent=agent, app_name="app", session_service=service)
    async for _ in runner.run_async(user_id="ann", session_id=session_id, new_message=message(text)):
        pass
    return list(model.asked[-1])


async def refused(kind: type[BaseException], attempt: Awaitable[Any]) -> None:
    try:
        await attempt
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


async def check_a_session_goes_on_in_another_process() -> None:
    session_id = new_id()
    place: dict[str, Any] = {"app_name": "app", "user_id": "ann", "session_id": session_id}

    def look(id: int) -> dict[str, Any]:
        """Looks for a parcel."""
        return {"at": id}

    async with AsyncThreadline() as client:
        service = ThreadlineSessionService(client)
        await service.create_session(**place)
        call = types.Part(function_call=types.FunctionCall(name="look", args={"id": 7}), thought_signature=b"\xff\x00")
        model = Scripted(answers=[call, said("It is at 7")], asked=[])
        await turn(service, model, session_id, "Where?", tools=[look], output_key="found")
    async with AsyncThreadline() as client:
        service = ThreadlineSessionService(client)
        asked = await turn(service, Scripted(answers=[said("Yes")], asked=[]), session_id, "Really?")
        assert asked == ["Where?", "It is at 7", "Really?"]
        session = await service.get_session(**place)
        assert session is not None and session.state == {"found": "It is at 7"}
        assert texts(session.events) == ["Where?", "It is at 7", "Really?", "Yes"]
        (signed,) = [part for one in session.events for part in one.content.parts if part.thought_signature]
        assert signed.thought_signature == b"\xff\x00" and signed.function_call.args == {"id": 7}
        assert (await client.thread(thread_id_of("app", "ann", session_id)).get()).user_id == "ann"


async def check_states_are_those_of_sessions_users_and_apps() -> None:
    app = new_id()
    async with AsyncThreadline() as client:
        service = ThreadlineSessionService(client)
        state = {"n": 1, "app:theme": "dark", "user:name": "Ann", "temp:x": 1, "none": None, "odd": object}
        first = await service.create_session(app_name=app, user_id="ann", state=state, session_id=" s1 ")
        assert first.id == "s1" and str(first.state.pop("odd")).startswith("<class")
        assert first.state == {"n": 1, "none": None, "app:theme": "dark", "user:name": "Ann"}
        added = await service.append_event(first, event("a", n=2, user_name="Anna", app_seats=[1, 2], temp_y=3))
        assert first.state["temp:y"] == 3 and "temp:y" not in added.actions.state_delta
        bob = await service.create_session(app_name=app, user_id="bob")
        assert bob.state == {"app:theme": "dark", "app:seats": [1, 2]}
        second = await service.create_session(app_name=app, user_id="ann", session_id="s2")
        assert second.state == {"app:theme": "dark", "app:seats": [1, 2], "user:name": "Anna"}
        assert await service.get_user_state(app_name=app, user_id="ann") == {"name": "Anna"}
        assert await service.get_user_state(app_name=app, user_id="nobody") == {}
        stored = await service.get_session(app_name=app, user_id="ann", session_id="s1")
        assert stored is not None and stored.state["n"] == 2 and "temp:y" not in stored.state
        assert "temp:y" not in stored.events[0].actions.state_delta


async def check_the_service_does_what_that_of_the_framework_does() -> None:
    """A seeded sequence of operations on both services has the same results, and the same refusals."""
    seed = int(os.environ.get("THREADLINE_SEED", random.randrange(2**32)))
    try:
        async with AsyncThreadline() as client:
            await compare(seed, ThreadlineSessionService(client), InMemorySessionService())
    except BaseException as error:
        raise AssertionError(f"THREADLINE_SEED={seed}") from error


async def compare(seed: int, ours: BaseSessionService, theirs: BaseSessionService) -> None:
    chances = random.Random(seed)
    app = f"app-{seed}"

    async def both(act: Callable[[BaseSessionService], Awaitable[Any]]) -> tuple[Any, Any]:
        results: list[Any] = []
        for service in (ours, theirs):
            try:
                results.append(await act(service))
            except (AlreadyExistsError, SessionNotFoundError) as error:
                results.append(type(error))
        return results[0], results[1]

    for step in range(50):
        place: dict[str, Any] = {
            "app_name": app,
            "user_id": chances.choice(["ann", "bob/é"]),
            "session_id": chances.choice(["s1", "s 2%/", "s3"]),
        }
        key = chances.choice(["n", "app:n", "user:n", "temp:n"])
        newest, after, deletes = chances.choice([None, 0, 1, 3]), chances.choice([None, step - 5.0]), chances.randrange(6) == 0
        config = GetSessionConfig(num_recent_events=newest, after_timestamp=after)

        async def create(service: BaseSessionService) -> Any:
            return (await service.create_session(**place, state={key: step, "born": step})).state

        async def append(service: BaseSessionService) -> Any:
            session = await service.get_session(**place)
            if session is None:
                return None
            await service.append_event(session, event(f"event {step}", at=float(step), n=step, user_m=step))
            return session.state, texts(session.events)

        async def delete(service: BaseSessionService) -> Any:
            return await service.delete_session(**place)

        act = delete if deletes else chances.choice([create, append, append])
        mine, expected = await both(act)
        assert mine == expected, (step, act.__name__, mine, expected)
        mine, expected = await both(lambda service: shown(service, place, config))
        assert mine == expected, (step, act.__name__, mine, expected)


async def shown(service: BaseSessionService, place: dict[str, Any], config: GetSessionConfig) -> Any:
    """All that can be read, without times of creation, which differ."""
    session = await service.get_session(**place, config=config)
    listed = []
    for user_id in (place["user_id"], None):
        found = (await service.list_sessions(app_name=place["app_name"], user_id=user_id)).sessions
        listed.append(sorted((one.user_id, one.id, sorted(one.state.items())) for one in found))
    return listed, session and (session.state, texts(session.events), session.id)


async def check_a_stale_session_is_refused() -> None:
    place: dict[str, Any] = {"app_name": "app", "user_id": "ann", "session_id": new_id()}
    async with AsyncThreadline() as client:
        service = ThreadlineSessionService(client)
        session = await service.create_session(**place)
        await refused(AlreadyExistsError, service.create_session(**place, state={"n": 1}))
        copies = [await service.get_session(**place) for _ in range(3)]
        await service.append_event(session, event("first"))
        for copy in copies:
            await refused(STALE_SESSION, service.append_event(copy, event("late", at=2, n=1)))
            assert copy.events == [] and copy.state == {}
        # Events of parallel branches, which share a session.
        await asyncio.gather(*(service.append_event(session, event(str(n), at=2)) for n in range(5)))
        stored = await service.get_session(**place)
        assert sorted(texts(stored.events)) == ["0", "1", "2", "3", "4", "first"] and stored.state == {}
        made = Session(app_name="app", user_id="ann", id=place["session_id"], last_update_time=1)
        await refused(STALE_SESSION, service.append_event(made, event("made")))
        (listed,) = [one for one in (await service.list_sessions(app_name="app")).sessions if one.id == made.id]
        await service.append_event(listed, event("of a listed one", at=3))
        await service.delete_session(**place)
        await refused(SessionNotFoundError, service.append_event(stored, event("too late", at=4)))
        assert await service.get_session(**place) is None
        await service.delete_session(**place)
        assert (await service.create_session(**place)).events == []


async def check_long_sessions_and_large_states() -> None:
    async with AsyncThreadline() as client:
        service = ThreadlineSessionService(client)
        place: dict[str, Any] = {"app_name": new_id(), "user_id": "ann", "session_id": "s" * 250}
        state = {f"k{n}": "x" * 100 for n in range(900)}
        session = await service.create_session(**place, state=state)
        assert len(thread_id_of(**place)) == 64 and session.state == state
        await refused(ConfigError, service.create_session(app_name="app", user_id="ann", state={f"k{n}": n for n in range(1_000)}))
        await service.append_event(session, event("many", **{f"k{n}": n for n in range(99)}))
        await refused(ConfigError, service.append_event(session, event("too many", **{f"k{n}": n for n in range(100)})))
        stored = await service.get_session(**place)
        assert len(stored.state) == 900 and stored.state["k98"] == 98 and texts(stored.events) == ["many"]
        items = client.thread(thread_id_of(**place)).items(LIST)
        [first] = (await items.page()).items
        await items.append([first.item] * 1_100)
        assert len((await service.get_session(**place)).events) == 1_101
        newest = await service.get_session(**place, config=GetSessionConfig(num_recent_events=1_050))
        assert len(newest.events) == 1_050
        await service.append_event(newest, event("last"))


async def check_a_lost_answer_costs_nothing() -> None:
    proxy = Proxy(int(os.environ["THREADLINE_URL"].rsplit(":", 1)[1]))
    try:
        async with AsyncThreadline(proxy.url) as client:
            service = ThreadlineSessionService(client)
            proxy.swallow_answers = 1
            session = await service.create_session(app_name=new_id(), user_id="ann", state={"n": 1})
            for n in range(3):
                proxy.swallow_answers = 1
                await service.append_event(session, event(str(n), n=n))
            assert proxy.swallow_answers == 0
            stored = await service.get_session(app_name=session.app_name, user_id="ann", session_id=session.id)
            assert texts(stored.events) == ["0", "1", "2"] and stored.state == {"n": 2} == session.state
    finally:
        proxy.end()


async def check_a_cancelled_write_has_ended() -> None:
    async with held_client() as (client, network):
        service = ThreadlineSessionService(client)
        session = await service.create_session(app_name=new_id(), user_id="ann")
        await cancelled_write(network, service.append_event(session, event("a")))
        await service.append_event(session, event("b"))
        stored = await service.get_session(app_name=session.app_name, user_id="ann", session_id=session.id)
        assert texts(stored.events) == ["a", "b"] == texts(session.events)


async def check_a_read_is_of_one_time() -> None:
    """An append between the reads of a session has it read again."""
    async with AsyncThreadline() as client:
        service = ThreadlineSessionService(client)
        place: dict[str, Any] = {"app_name": new_id(), "user_id": "ann", "session_id": "s"}
        session = await service.create_session(**place)
        await service.append_event(session, event("a", n=1))
        events_of, appended = service._events, []

        async def events(*given: Any) -> Any:
            found = await events_of(*given)
            if not appended:
                appended.append(await service.append_event(session, event("b", at=2, n=2)))
            return found

        service._events = events  # type: ignore[method-assign]
        read = await service.get_session(**place)
        assert texts(read.events) == ["a", "b"] and read.state == {"n": 2}
        await service.append_event(read, event("c", at=3))


async def check_values_that_json_lacks() -> None:
    """Lone surrogates, NaN and infinities come back, in events and in state."""
    half, place = "a\ud800b", {"app_name": new_id(), "user_id": "ann", "session_id": "s"}
    odd = [float("nan"), float("inf"), -float("inf"), {"deep": [float("nan"), half]}]
    async with AsyncThreadline() as client:
        service = ThreadlineSessionService(client)
        session = await service.create_session(**place, state={"app:odd": odd, "user:odd": odd, "odd": odd})
        assert repr(session.state) == repr({"odd": odd, "app:odd": odd, "user:odd": odd})
        one = event(half, n=odd, user_half=half)
        result = types.FunctionResponse(name="look", response={"at": odd})
        one.content.parts += [types.Part(function_response=result), types.Part(text="t", thought_signature=b"\xff\x00")]
        await service.append_event(session, one)
        await service.append_event(session, event("after", at=2))
        stored = await service.get_session(**place)
        assert [repr(each.model_dump()) for each in stored.events] == [repr(each.model_dump()) for each in session.events]
        wanted = {"odd": odd, "n": odd, "app:odd": odd, "user:odd": odd, "user:half": half}
        assert repr(sorted(stored.state.items())) == repr(sorted(wanted.items()))
        [listed] = (await service.list_sessions(app_name=place["app_name"])).sessions
        assert repr(listed.state) == repr(stored.state)


async def check_the_state_of_a_user_is_erased_with_the_user() -> None:
    app = new_id()
    async with AsyncThreadline() as client:
        service = ThreadlineSessionService(client)
        for name in ("ann", "bob/é"):
            user_id = f"{app}-{name}"
            session = await service.create_session(app_name=app, user_id=user_id, state={"user:name": name, "app:n": 1})
            await service.append_event(session, event("hi", user_mail=name))
            assert await service.get_user_state(app_name=app, user_id=user_id) == {"name": name, "mail": name}
        assert len((await service.list_sessions(app_name=app)).sessions) == 2
        await client._http.call(Call(["users", f"{app}-ann"], "DELETE"))
        assert await service.get_user_state(app_name=app, user_id=f"{app}-ann") == {}
        assert [one.user_id for one in (await service.list_sessions(app_name=app)).sessions] == [f"{app}-bob/é"]
        assert await service.get_user_state(app_name=app, user_id=f"{app}-bob/é") == {"name": "bob/é", "mail": "bob/é"}
        left = (await client.kv.search(("adk", app))).items
        assert "ann" not in repr(left)
        await refused(ConfigError, service.create_session(app_name=app, user_id=" spaced ", state={"user:n": 1}))


class Fails(Exception):
    """Ends a process in the middle of a write, as far as its service can see."""


async def check_a_killed_process_leaves_no_half_event() -> None:
    """The state of a user whose writer dies behind the commit of an event is written by whoever goes on."""
    async with AsyncThreadline() as client:
        for goes_on in ("get_session", "list_sessions"):
            place: dict[str, Any] = {"app_name": new_id(), "user_id": "ann", "session_id": "s"}
            dying = ThreadlineSessionService(client)

            async def die(*given: Any) -> None:
                raise Fails

            session = await dying.create_session(**place, state={"user:n": 0})
            dying._complete = die  # type: ignore[method-assign]
            await refused(Fails, dying.append_event(session, event("a", n=1, user_n=1, user_m=1)))
            service = ThreadlineSessionService(client)
            assert await service.get_user_state(app_name=place["app_name"], user_id="ann") == {"n": 0}
            if goes_on == "get_session":
                copies = [await service.get_session(**place) for _ in range(2)]
                assert copies[0].state == {"n": 1, "user:n": 1, "user:m": 1} and texts(copies[0].events) == ["a"]
                await service.append_event(copies[0], event("b", at=2, user_n=2))
            else:
                [listed] = (await service.list_sessions(app_name=place["app_name"])).sessions
                await service.append_event(listed, event("b", at=2, user_n=2))
            # Changes of the killed process are not written again.
            assert (await service.get_session(**place)).state == {"n": 1, "user:n": 2, "user:m": 1}
            assert await service.get_user_state(app_name=place["app_name"], user_id="ann") == {"n": 2, "m": 1}


async def check_a_session_never_becomes_older() -> None:
    place: dict[str, Any] = {"app_name": new_id(), "user_id": "ann", "session_id": "s"}
    async with AsyncThreadline() as client:
        service = ThreadlineSessionService(client)
        session = await service.create_session(**place)
        created = session.last_update_time
        await service.append_event(session, event("of a slow clock", at=created - 100))
        assert session.last_update_time == created == (await service.get_session(**place)).last_update_time
        await service.append_event(session, event("later", at=created + 5))
        await service.append_event(session, event("of a slow clock", at=created))
        [listed] = (await service.list_sessions(app_name=place["app_name"])).sessions
        assert listed.last_update_time == created + 5 == session.last_update_time
        assert texts((await service.get_session(**place)).events) == ["of a slow clock", "later", "of a slow clock"]


async def check_the_examples_of_the_page() -> None:
    chat = new_id()
    start, around = (example.replace("chat-7", chat) for example in examples_of("adk.md"))
    model = Scripted(answers=[said("Here"), said("There")], asked=[])
    names: dict[str, Any] = {"model": model, "user": user, "types": types}
    await run_example("adk.md", start, names)
    await run_example("adk.md", around, names)
    client, service = names["client"], names["service"]
    session = await service.get_session(app_name="trips", user_id="ann", session_id=chat)
    assert texts(session.events) == ["Where is my parcel?", "Here", "And the other one?", "There"]
    assert [one["content"] for one in (await names["thread"].messages()).messages] == ["And the other one?", "There"]
    await client.aclose()


if __name__ == "__main__":
    main(globals())
