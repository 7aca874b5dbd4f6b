"""A session service for Google's Agent Development Kit (`google-adk` from 2.0 on), on item lists and key-value entries."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Type
from urllib.parse import quote
from weakref import WeakValueDictionary

from google.adk import errors
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from ._acting import entries_of
from ._async.client import AsyncThreadline
from ._async.items import AsyncItems
from ._async.kv import AsyncKv
from ._errors import ConfigError
from ._ids import new_id
from ._json import JsonObject, is_json, to_json
from ._limits import ITEM_PAGE, KV_BATCH, LIST_WRITES, MAX_ID_BYTES, USERS_AT_ONCE
from ._opening import UNSET
from ._settled import settled
from .kv import Entry, Put
from .problems import ItemsChanged, KvChanged, ThreadNotFound

LIST = "adk"
"""Name of the item list with the events of a session."""
ROOT = "adk"
"""First label of all namespaces. The app is the second one. The third one is `sessions`, `state` or `app`, in entries of the project,
and `user` or `applied`, in entries of a user."""

STALE_SESSION: Type[ValueError] = getattr(errors, "StaleSessionError", ValueError)
"""Error of an append to a session that has changed since it was read: `StaleSessionError`, or `ValueError` before ADK 2.8."""

NO_LIST = ""
"""Marker of a session without events, whose item list does not exist yet."""

Place = Tuple[str, str, str]
"""A session: app, user and id."""


class ThreadlineSessionService(BaseSessionService):
    """A `BaseSessionService` whose sessions belong to threads: events are in the item list `adk`, and state is in key-value entries.

    Pass the service to a `Runner`. Create the client without `user`: one service serves all users of its apps, and each thread
    belongs to the user of its session. An event and its changes of state are stored in one commit. Changes of `user:` state are
    written to entries of the user by a second commit. The first commit names them, so the next reader of the session can complete them.
    """

    def __init__(self, client: AsyncThreadline) -> None:
        self._client = client
        # Appends to one session are made one after the other, because each append names the tag of the append before.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: Optional[Dict[str, Any]] = None,
        session_id: Optional[str] = None,
    ) -> Session:
        """Creates a session and its thread. Raises `AlreadyExistsError` if a session with this id exists."""
        place = (app_name, user_id, (session_id or "").strip() or new_id())
        now = time.time()
        writes = _writes(place, state or {})
        if len(writes) >= KV_BATCH:
            raise ConfigError(f"the state of a new session has {len(writes)} keys, but at most {KV_BATCH - 1} are stored at once")
        await settled(self._create(place, _record(place, now, state or {}, if_tag=None), writes))
        own = {key: value for key, value in _jsonable(state or {}).items() if not key.startswith(_PREFIXES)}
        shared = await self._shared_states(app_name, user_id)
        return _session(place, {**own, **shared}, [], now, NO_LIST)

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: Optional[GetSessionConfig] = None
    ) -> Optional[Session]:
        """A session with its state, and all of its events or those of `config`. None if there is no such session."""
        place = (app_name, user_id, session_id.strip())
        record = await self._record_of(place)
        while record is not None:
            await self._complete(place, record.value)
            events, tag = await self._events(place, config)
            state = _values(await self._all((ROOT, app_name, "state", *place[1:])))
            state.update(await self._shared_states(app_name, user_id))
            before = record
            record = await self._record_of(place)
            # An append between these reads would return a state that does not belong to the events.
            if record is not None and record.tag == before.tag:
                return _session(place, state, events, record.value["updated"], tag)
        return None

    async def list_sessions(self, *, app_name: str, user_id: Optional[str] = None) -> ListSessionsResponse:
        """The sessions of an app, or of one user, without events, sorted by the time of their last change."""
        of = () if user_id is None else (user_id,)
        records = await self._all((ROOT, app_name, "sessions", *of))
        app = _prefixed(State.APP_PREFIX, _values(await self._all((ROOT, app_name, "app"))))
        states: Dict[Tuple[str, ...], JsonObject] = {}
        for entry in await self._all((ROOT, app_name, "state", *of)):
            states.setdefault(tuple(entry.ns[3:]), {})[entry.key] = _value_of(entry.value)
        users = await self._states_of_users(app_name, {record.ns[3] for record in records})
        sessions = []
        for record in records:
            user, session_id = record.ns[3], record.key
            state = {**states.get((user, session_id), {}), **app, **users[user]}
            sessions.append(_session((app_name, user, session_id), state, [], record.value["updated"], None))
        sessions.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Deletes a session and its thread, including the runs of the thread."""
        try:
            await self._client.thread(thread_id_of(app_name, user_id, session_id.strip())).delete()
        except ThreadNotFound:
            pass  # it is not there

    async def get_user_state(self, *, app_name: str, user_id: str) -> Dict[str, Any]:
        """The state of a user, without the prefix `user:`."""
        return _values(await self._all((ROOT, app_name, "user"), self._entries_of(user_id)))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Adds an event and its changes of state to the stored session and to `session`.

        Raises `STALE_SESSION` if the stored session has changed since `session` was read, and `SessionNotFoundError` if it was deleted.
        """
        if event.partial:
            return event
        thread_id = thread_id_of(session.app_name, session.user_id, session.id)
        lock = self._locks.setdefault(thread_id, asyncio.Lock())
        async with lock:
            return await settled(self._append(session, event, self._client.thread(thread_id).items(LIST)))

    async def _create(self, place: Place, record: Put, writes: List[Put]) -> None:
        await self._client.threads.get_or_create(thread_id_of(*place), user_id=place[1])
        try:
            await self._client.kv.batch([record, *writes])
        except KvChanged as error:
            raise AlreadyExistsError(f"Session with id {place[2]} already exists.") from error
        await self._complete(place, record.value)

    async def _append(self, session: Session, event: Event, items: AsyncItems) -> Event:
        place = (session.app_name, session.user_id, session.id)
        delta = (event.actions.state_delta if event.actions else None) or {}
        tag = await self._tag(session, items)
        # Clocks of machines differ, but the time of a session must not decrease.
        updated = max(session.last_update_time, event.timestamp)
        record = _record(place, updated, delta)
        writes = [*_writes(place, delta), record]
        if len(writes) > LIST_WRITES:
            raise ConfigError(f"an event changes {len(writes) - 1} keys of state, but at most {LIST_WRITES - 1} are stored at once")
        try:
            added = await items.append([_item_of(event)], if_tag=tag, kv=writes)
        except ItemsChanged as error:
            raise STALE_SESSION(f"Session {session.id} was changed since it was read: read it again.") from error
        except ThreadNotFound as error:
            raise SessionNotFoundError(f"Session {session.id} not found.") from error
        await self._complete(place, record.value)
        session.last_update_time = updated
        session._storage_update_marker = added.tag
        return await super().append_event(session, event)

    async def _complete(self, place: Place, record: JsonObject) -> None:
        """Writes the changes of `user:` state that a record names, unless they have been written.

        The entry `applied` of a session has the id of the changes that were written last. Each process reads a session before it changes
        it, so changes are written in their order.
        """
        app_name, user_id, session_id = place
        changes = record.get("user")
        if changes is None:
            return
        kv = self._entries_of(user_id)
        ns = (ROOT, app_name, "applied")
        applied = await kv.get(ns, session_id)
        if applied is not None and applied.value == changes["id"]:
            return
        mark = Put(ns, session_id, changes["id"], if_tag=applied.tag if applied else None, thread_id=thread_id_of(*place))
        puts = [Put((ROOT, app_name, "user"), key, value) for key, value in changes["state"].items()]
        try:
            await kv.batch([mark, *puts])
        except KvChanged:
            pass  # another process has written them
        except ThreadNotFound as error:
            raise SessionNotFoundError(f"Session {session_id} not found.") from error

    async def _tag(self, session: Session, items: AsyncItems) -> Optional[str]:
        """The tag that the list of a session must have."""
        marker = session._storage_update_marker
        if marker is not None:
            return None if marker == NO_LIST else marker
        # A session without a marker, such as one of a list, has only its time to tell how new it is.
        # The tag is read before the time: an append in between makes the tag stale.
        tag = (await items.page(limit=1)).tag
        record = await self._record_of((session.app_name, session.user_id, session.id))
        if record is None:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        if record.value["updated"] > session.last_update_time:
            raise STALE_SESSION(f"Session {session.id} was changed since it was read: read it again.")
        await self._complete((session.app_name, session.user_id, session.id), record.value)
        return tag

    async def _events(self, place: Place, config: Optional[GetSessionConfig]) -> Tuple[List[Event], Optional[str]]:
        """Events, the oldest first, and the tag of their list."""
        newest = config.num_recent_events if config else None
        after = config.after_timestamp if config else None
        items = self._client.thread(thread_id_of(*place)).items(LIST)
        try:
            page = await (items.page(limit=1) if newest == 0 else items.read(None if after else newest))
        except ThreadNotFound:
            return [], NO_LIST
        events = [_event_of(one.item) for one in page.items]
        if after:
            events = [event for event in events if event.timestamp >= after]
        if newest is not None:
            events = events[-newest:] if newest else []
        return events, NO_LIST if page.tag is None else page.tag

    async def _record_of(self, place: Place) -> Optional[Entry]:
        app_name, user_id, session_id = place
        return await self._client.kv.get((ROOT, app_name, "sessions", user_id), session_id)

    async def _shared_states(self, app_name: str, user_id: str) -> JsonObject:
        """The app state and the user state, which the sessions of a user share, with their prefixes."""
        app = _values(await self._all((ROOT, app_name, "app")))
        user = await self.get_user_state(app_name=app_name, user_id=user_id)
        return {**_prefixed(State.APP_PREFIX, app), **_prefixed(State.USER_PREFIX, user)}

    async def _states_of_users(self, app_name: str, user_ids: Iterable[str]) -> Dict[str, JsonObject]:
        """The state of each user, with the prefix `user:`."""
        states: Dict[str, JsonObject] = {}
        ids = sorted(user_ids)
        for start in range(0, len(ids), USERS_AT_ONCE):
            some = ids[start : start + USERS_AT_ONCE]
            found = await asyncio.gather(*(self.get_user_state(app_name=app_name, user_id=user_id) for user_id in some))
            states.update((user_id, _prefixed(State.USER_PREFIX, state)) for user_id, state in zip(some, found, strict=True))
        return states

    def _entries_of(self, user_id: str) -> AsyncKv:
        """The entries of a user, which are deleted with the user."""
        return entries_of(self._client, user_id)

    async def _all(self, prefix: Sequence[str], kv: Optional[AsyncKv] = None) -> List[Entry]:
        """All entries of the project, or of a user, whose namespaces begin with these labels."""
        entries: List[Entry] = []
        cursor: Optional[str] = None
        while True:
            found = await (kv or self._client.kv).search(prefix, limit=ITEM_PAGE, cursor=cursor)
            entries += found.items
            cursor = found.cursor
            if cursor is None:
                return entries


_PREFIXES = (State.APP_PREFIX, State.USER_PREFIX, State.TEMP_PREFIX)


def thread_id_of(app_name: str, user_id: str, session_id: str) -> str:
    """The thread id of a session: `app/user/session`, percent-encoded; beyond 256 bytes, the SHA-256 of that."""
    text = "/".join(quote(part, safe="") for part in (app_name, user_id, session_id))
    return text if len(text) <= MAX_ID_BYTES else hashlib.sha256(text.encode("ascii")).hexdigest()


def _session(place: Place, state: JsonObject, events: List[Event], updated: float, marker: Optional[str]) -> Session:
    app_name, user_id, session_id = place
    session = Session(app_name=app_name, user_id=user_id, id=session_id, state=state, events=events, last_update_time=updated)
    session._storage_update_marker = marker
    return session


def _record(place: Place, updated: float, delta: Dict[str, Any], *, if_tag: Optional[str] = UNSET) -> Put:
    """The record of a session: the time of its last change, and the last changes of `user:` state, with an id."""
    app_name, user_id, session_id = place
    value: JsonObject = {"updated": updated}
    prefix = State.USER_PREFIX
    changes = {key[len(prefix) :]: _kept(one) for key, one in _jsonable(delta).items() if key.startswith(prefix)}
    if changes:
        value["user"] = {"id": new_id(), "state": changes}
    return Put((ROOT, app_name, "sessions", user_id), session_id, value, if_tag=if_tag, thread_id=thread_id_of(*place))


def _writes(place: Place, delta: Dict[str, Any]) -> List[Put]:
    """Writes of session state and app state. Each key is an entry of the project, so changes of different keys do not conflict."""
    app_name, user_id, session_id = place
    writes: List[Put] = []
    for key, value in _jsonable(delta).items():
        if key.startswith(State.APP_PREFIX):
            writes.append(Put((ROOT, app_name, "app"), key[len(State.APP_PREFIX) :], _kept(value)))
        elif not key.startswith(_PREFIXES):
            place_of_state = (ROOT, app_name, "state", user_id, session_id)
            writes.append(Put(place_of_state, key, _kept(value), thread_id=thread_id_of(*place)))
    return writes


def _jsonable(state: Dict[str, Any]) -> JsonObject:
    """A state as JSON. A value without a form in JSON is stored as its text, as ADK's own services do."""
    document: JsonObject = to_jsonable_python(state, serialize_unknown=True, inf_nan_mode="constants", bytes_mode="base64")
    return document


def _item_of(event: Event) -> Any:
    """An event as an item. With NaN or infinities, which JSON lacks, the item is a string: the text that Python's `json` writes."""
    document = _jsonable(event.model_dump(exclude_none=True, by_alias=True))
    kept = (document.get("actions") or {}).get("stateDelta")
    if kept:
        document["actions"]["stateDelta"] = {key: value for key, value in kept.items() if not key.startswith(State.TEMP_PREFIX)}
    return document if is_json(document) else json.dumps(document)


def _event_of(item: Any) -> Event:
    try:
        return Event.model_validate_json(item if isinstance(item, str) else to_json(item))
    except ValidationError:
        # pydantic does not accept lone surrogates in JSON text.
        return Event.model_validate(json.loads(item) if isinstance(item, str) else item)


def _kept(value: Any) -> JsonObject:
    """A value of state as the value of an entry, which cannot be null. With NaN or infinities, `text` is what Python's `json` writes."""
    return {"value": value} if is_json(value) else {"text": json.dumps(value)}


def _value_of(kept: JsonObject) -> Any:
    return json.loads(kept["text"]) if "text" in kept else kept["value"]


def _values(entries: List[Entry]) -> JsonObject:
    return {entry.key: _value_of(entry.value) for entry in entries}


def _prefixed(prefix: str, state: JsonObject) -> JsonObject:
    return {prefix + key: value for key, value in state.items()}


__all__ = ["LIST", "ROOT", "STALE_SESSION", "ThreadlineSessionService", "thread_id_of"]
