"""The threads of a user."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional

from .._calls import Call
from .._ids import new_id
from .._options import ThreadOrder, ThreadStatus
from .._records import AgentList, AgentRecord, Inbox, ThreadPage, ThreadRecord
from ..problems import ThreadExists, ThreadNotFound
from .http import Http


class Threads:
    """Creates and lists threads."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def create(
        self,
        thread_id: Optional[str] = None,
        *,
        name: Optional[str] = None,
        agent_id: Optional[str] = None,
        metadata: Optional[Mapping[str, Any]] = None,
        user_id: Optional[str] = None,
    ) -> ThreadRecord:
        """Creates a thread, and returns its record. `thread_id` is a new id by default.

        `user_id` is the owner, if an API key is used without a user. A repeated call with the same arguments returns the existing thread;
        with others it raises `ThreadExists`. A name has at most 1,024 bytes, and the metadata at most 64 KiB of JSON.
        """
        members = {"name": name, "agentId": agent_id, "metadata": metadata, "userId": user_id}
        body = {"threadId": thread_id or new_id(), **{key: value for key, value in members.items() if value is not None}}
        return ThreadRecord.of(self._http.call(Call(["threads"], "POST", body=body, keyed=True)))

    def get_or_create(
        self,
        thread_id: str,
        *,
        name: Optional[str] = None,
        agent_id: Optional[str] = None,
        metadata: Optional[Mapping[str, Any]] = None,
        user_id: Optional[str] = None,
    ) -> ThreadRecord:
        """Creates a thread, or returns the existing one unchanged: `name` and `metadata` are for a new thread only.

        Raises `ThreadExists` if another user has a thread with this id.
        """
        try:
            return self.create(thread_id, name=name, agent_id=agent_id, metadata=metadata, user_id=user_id)
        except ThreadExists as error:
            try:
                return ThreadRecord.of(self._http.call(Call(["threads", thread_id])))
            except ThreadNotFound:
                # The id is that of another user's thread.
                raise error from None

    def list(
        self,
        *,
        agent_id: Optional[str] = None,
        status: Optional[ThreadStatus] = None,
        search: Optional[str] = None,
        include_archived: Optional[bool] = None,
        order: Optional[ThreadOrder] = None,
        limit: Optional[int] = None,
        cursor: Optional[str] = None,
        user_id: Optional[str] = None,
    ) -> ThreadPage:
        """A page of threads: 50 by default, and `limit` is at most 500. `cursor`: the `next_cursor` of the previous page.

        `status`: `running`, `waiting`, `failed` or `idle`. `search`: only threads whose name contains this text, ignoring case and
        accents. `order`: `recent`, the default (newest first), or `created` (oldest first). Archived threads are left out, unless
        `include_archived`. `user_id` is the user whose threads are listed, if an API key is used without a user.
        """
        query = {
            "agentId": agent_id,
            "status": status,
            "search": search,
            "includeArchived": include_archived,
            "order": order,
            "limit": limit,
            "cursor": cursor,
            "userId": user_id,
        }
        return ThreadPage.of(self._http.call(Call(["threads"], query=query)))


class Agents:
    """The agents to which runs can be delegated."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> List[AgentRecord]:
        """All agents that the caller may use."""
        return AgentList.of(self._http.call(Call(["agents"]))).agents


class Interrupts:
    """The inbox of a user: open interrupts of all threads, which wait for answers."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        *,
        agent_id: Optional[str] = None,
        limit: Optional[int] = None,
        cursor: Optional[str] = None,
        user_id: Optional[str] = None,
    ) -> Inbox:
        """A page of interrupts: of 50 threads by default, and `limit` is at most 100. `cursor`: the `next_cursor` of the previous page."""
        query = {"agentId": agent_id, "limit": limit, "cursor": cursor, "userId": user_id}
        return Inbox.of(self._http.call(Call(["interrupts"], query=query)))
