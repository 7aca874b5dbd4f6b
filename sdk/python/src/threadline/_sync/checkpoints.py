"""Requests about checkpoints of threads."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from .._calls import Call
from .._json import JsonObject, to_json
from .._limits import CHECKPOINT_BYTES
from ..checkpoints import Checkpoint, CheckpointPage, Fields, Write, groups, length_of
from .http import Http


class Listed:
    """Lists of checkpoints, of one thread or of all."""

    def __init__(self, http: Http, path: Sequence[str], expected: Sequence[str]) -> None:
        self._http = http
        self._path = [*path, "checkpoints"]
        self._expected = expected

    def list(
        self,
        *,
        ns: Optional[str] = None,
        before: Optional[str] = None,
        filter: Optional[Mapping[str, Any]] = None,
        fields: Fields = "all",
        limit: Optional[int] = None,
        cursor: Optional[str] = None,
    ) -> CheckpointPage:
        """A page of checkpoints, the greatest id first, of all namespaces if `ns` is None. `cursor`: the `cursor` of the previous page.

        `before`: only smaller ids. `filter`: only with these members in their metadata, equal as JSON. `fields`: `head` leaves out the
        data of checkpoints, blobs and writes. A page has 100 checkpoints by default, and `limit` is at most 1,000.
        """
        query = {
            "ns": ns,
            "before": before,
            "filter": None if filter is None else to_json(filter),
            "fields": fields,
            "limit": limit,
            "cursor": cursor,
        }
        page = self._call("list", query=query)
        found = page["checkpoints"]
        return CheckpointPage([self._read(one, fields) for one in found], page["cursor"])

    def _call(self, *path: str, **options: Any) -> Any:
        return self._http.call(Call([*self._path, *path], expected=self._expected, **options))

    def _read(self, given: JsonObject, fields: Fields = "all") -> Checkpoint:
        """A checkpoint of a response. Data that did not fit into the response is requested."""
        path = ["threads", given["threadId"], "checkpoints"]
        at = {"ns": given["ns"]}
        for blob in given["blobs"] if fields == "all" else ():
            if "data" not in blob:
                query = {**at, "channel": blob["channel"], "version": blob["version"]}
                blob.update(self._http.call(Call([*path, "blobs"], query=query)))
        for write in given["writes"] if fields == "all" else ():
            if "data" not in write:
                query = {**at, "id": given["id"], "taskId": write["taskId"], "idx": write["idx"]}
                write.update(self._http.call(Call([*path, "writes"], query=query)))
        return Checkpoint.of(given)


class AllCheckpoints(Listed):
    """Checkpoints of all threads of a user or project. Requires an API key with the scope `produce`."""

    def __init__(self, http: Http) -> None:
        super().__init__(http, [], ())

    def delete_run(self, run_id: str) -> None:
        """Deletes the checkpoints of a run, in all threads."""
        self._call(method="DELETE", query={"runId": run_id})


class Checkpoints(Listed):
    """Checkpoints of one thread. A graph has the namespace `ns` "", and each of its subgraphs a namespace of its own.

    Requires an API key with the scope `produce`.
    """

    def __init__(self, http: Http, thread_id: str, expected: Sequence[str] = ()) -> None:
        super().__init__(http, ["threads", thread_id], expected)

    def get(self, ns: str = "", checkpoint_id: Optional[str] = None) -> Checkpoint:
        """A checkpoint with its blobs and writes, by default the one with the greatest id. Raises `CheckpointNotFound`."""
        return self._read(self._call(query={"ns": ns, "id": checkpoint_id}))

    def put(self, checkpoint: Checkpoint) -> None:
        """Stores a checkpoint, and replaces one with the same id. The checkpoint becomes visible only with all of its blobs.

        `blobs` has the blobs of new versions; a blob that is stored already stays. Raises `BlobMissing` if a channel has no blob.
        """
        body = checkpoint.body()
        grouped = groups(checkpoint.blobs)
        if len(grouped) == 1 and length_of(body) + sum(map(length_of, grouped[0])) <= CHECKPOINT_BYTES:
            body["blobs"] = grouped.pop()
        for blobs in grouped:
            self._call("blobs", method="POST", query={"ns": checkpoint.ns}, body={"blobs": blobs})
        self._call(method="PUT", query={"ns": checkpoint.ns, "id": checkpoint.id}, body=body)

    def put_writes(self, ns: str, checkpoint_id: str, writes: Sequence[Write]) -> None:
        """Stores the writes of one task after a checkpoint. Of writes with the same index, the first one stays; below 0, the last one."""
        body = {
            "taskId": writes[0].task_id,
            "taskPath": writes[0].task_path,
            "writes": [write.body() for write in writes],
        }
        self._call("writes", method="PUT", query={"ns": ns, "id": checkpoint_id}, body=body)

    def delete(self, *, ns: Optional[str] = None, ids: Optional[Sequence[str]] = None) -> None:
        """Deletes checkpoints and the writes after them: all, those of a namespace, or those with `ids`."""
        members = {"ns": ns, "ids": None if ids is None else list(ids)}
        body = {name: value for name, value in members.items() if value is not None}
        self._call("delete", method="POST", body=body)

    def copy(self, from_thread_id: str) -> None:
        """Adds all checkpoints of another thread of the same user."""
        self._call("copy", method="POST", body={"fromThreadId": from_thread_id})
