"""Requests of a client of a project on behalf of one user."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, cast

from ._async.client import AsyncThreadline
from ._async.http import AsyncHttp
from ._async.kv import AsyncKv
from ._calls import Call
from ._errors import ConfigError


class _Acting:
    """Sends requests on behalf of a user."""

    def __init__(self, http: AsyncHttp, user_id: str) -> None:
        # Header values have no spaces at their ends, and no control characters.
        if not re.fullmatch(r"[^\s\x00-\x1f\x7f\ud800-\udfff]([^\x00-\x1f\x7f\ud800-\udfff]*\S)?", user_id):
            raise ConfigError(f"the user {user_id!r} cannot be named in a header: use an id without spaces around it")
        self._http = http
        self._headers = {"Threadline-User": user_id}

    async def call(self, call: Call) -> Any:
        return await self._http.call(replace(call, headers={**call.headers, **self._headers}))


def entries_of(client: AsyncThreadline, user_id: str) -> AsyncKv:
    """The key-value entries of a user, for a client of the project."""
    return AsyncKv(cast(AsyncHttp, _Acting(client._http, user_id)))
