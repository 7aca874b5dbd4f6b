"""The client of one server."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Awaitable, Callable, Mapping, Optional, Sequence, Type, Union

import httpx

from .._config import TRANSPORTS, Retries, configure, credential
from .._items import Cursor
from .._limits import REQUEST_TIMEOUT
from .checkpoints import AsyncAllCheckpoints
from .feed import AsyncFeed
from .http import AsyncHttp
from .kv import AsyncKv
from .thread import AsyncThread
from .threads import AsyncAgents, AsyncInterrupts, AsyncThreads

TokenSource = Union[str, Callable[[], Union[str, Awaitable[str]]]]


class AsyncThreadline:
    """A client of one server, for one user or project. The first request opens the connection.

    `url` and `api_key` default to the environment variables THREADLINE_URL and THREADLINE_API_KEY. `token` is a user's token, or a function
    that returns one, which is called again when it expires. `user` is the user on whose behalf requests with an API key are made, and
    `project` the project of an operator's requests. `headers` are sent with each request. `timeout` is that of one request, in
    seconds. `transports` are those of subscriptions, `sse` and `long-poll`, the preferred one first. With `validate`, the server
    refuses events of runs of this program that do not conform to AG-UI: see `AsyncThread.run`. `http` replaces the HTTP client, and
    is not closed by `aclose`. An invalid option raises `ConfigError`.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        *,
        api_key: Optional[str] = None,
        token: Optional[TokenSource] = None,
        user: Optional[str] = None,
        project: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
        timeout: float = REQUEST_TIMEOUT,
        http: Optional[httpx.AsyncClient] = None,
        logger: Optional[logging.Logger] = None,
        retries: Optional[Retries] = None,
        transports: Sequence[str] = TRANSPORTS,
        validate: bool = True,
    ) -> None:
        config = configure(
            url=url,
            user=user,
            project=project,
            headers=headers,
            timeout=timeout,
            retries=retries or Retries(),
            transports=transports,
            validate=validate,
            logger=logger,
        )
        self._http = AsyncHttp(config, credential(api_key, token), http)
        self.threads = AsyncThreads(self._http)
        """Creates and lists threads."""
        self.agents = AsyncAgents(self._http)
        """Lists the agents of the server."""
        self.interrupts = AsyncInterrupts(self._http)
        """Lists the open interrupts: questions of agents that wait for answers."""
        self.kv = AsyncKv(self._http)
        """Reads, writes and searches key-value entries."""
        self.checkpoints = AsyncAllCheckpoints(self._http)
        """Lists and deletes checkpoints of graphs, across all threads."""

    def thread(self, thread_id: str) -> AsyncThread:
        """A reference to a thread, by its id. No request is made."""
        return AsyncThread(self._http, thread_id)

    def feed(self, cursor: Optional[Cursor] = None, *, user_id: Optional[str] = None) -> AsyncFeed:
        """An iterator over the changes of a user's threads, from a cursor on (by default, all threads come first).

        `ThreadPage` has the cursor of a list: `Cursor(page.feed_cursor, page.feed_epoch)`. `user_id` is the user whose threads are
        followed, if an API key is used without a user. A lost connection is opened again. Raises `LogReplaced` if the cursor
        belongs to another feed: read the list again.
        """
        return AsyncFeed(self._http, cursor, user_id)

    async def __aenter__(self) -> AsyncThreadline:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the client for good: iterators and calls raise `Closed`. An active run of this program loses its lease."""
        await self._http.aclose()
