"""Sessions of the OpenAI Agents SDK (`openai-agents`), stored in item lists of threads."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import Any, List, Optional

from ._async.client import AsyncThreadline
from ._async.items import AsyncItems
from ._settled import settled
from .problems import ThreadNotFound

LIST = "openai-agents"
"""Name of the item list with the items of a session."""


class ThreadlineSession:
    """A session of the OpenAI Agents SDK, in the item list `openai-agents` of the thread `session_id`.

    Pass the session to `Runner.run(…, session=…)`. The first items create the thread for `user_id`, by default for the client's
    user. A call stores all of its items or none, and its retries are idempotent. A cancelled write is completed before `CancelledError`
    is raised.
    """

    session_id: str
    session_settings: Any
    """The SDK's `SessionSettings`, in versions that have them; a dict is converted. `limit` is the default of `get_items`."""

    def __init__(self, session_id: str, client: AsyncThreadline, *, user_id: Optional[str] = None, session_settings: Any = None) -> None:
        self.session_id = session_id
        self.session_settings = _settings_of(session_settings)
        self._client = client
        self._user_id = user_id

    async def get_items(self, limit: Optional[int] = None) -> List[Any]:
        """The items of the session, oldest first: all, or the newest `limit` ones."""
        if limit is None:
            limit = getattr(self.session_settings, "limit", None)
        if limit is not None and limit <= 0:
            return []
        try:
            return [one.item for one in (await self._items().read(limit)).items]
        except ThreadNotFound:
            return []

    async def add_items(self, items: List[Any]) -> None:
        """Adds items at the end, all or none. Equal items are not merged."""
        if items:
            await settled(self._add(items))

    async def pop_item(self) -> Optional[Any]:
        """Removes the newest item, and returns it; None if there is none."""
        return await settled(self._pop())

    async def clear_session(self) -> None:
        """Removes all items. The thread and its log are kept."""
        await settled(self._clear())

    def _items(self) -> AsyncItems:
        return self._client.thread(self.session_id).items(LIST)

    async def _add(self, items: List[Any]) -> None:
        try:
            await self._items().append(items)
        except ThreadNotFound:
            await self._client.threads.get_or_create(self.session_id, user_id=self._user_id)
            await self._items().append(items)

    async def _pop(self) -> Optional[Any]:
        try:
            popped = await self._items().pop()
        except ThreadNotFound:
            return None
        return popped.items[0].item if popped.items else None

    async def _clear(self) -> None:
        try:
            await self._items().replace([])
        except ThreadNotFound:
            pass  # a session without a thread is empty


def _settings_of(given: Any) -> Any:
    """Settings as the SDK's own sessions have them: a runner calls their `resolve` with its own settings."""
    if given is not None and not isinstance(given, dict):
        return given
    try:
        settings = import_module("agents.memory").SessionSettings
    except (ImportError, AttributeError):
        return given  # a version without settings
    unknown = set(given or {}) - {one.name for one in fields(settings)}
    if unknown:
        raise TypeError(f"Unknown session settings: {', '.join(sorted(unknown))}")
    return settings(**(given or {}))


__all__ = ["LIST", "ThreadlineSession"]
