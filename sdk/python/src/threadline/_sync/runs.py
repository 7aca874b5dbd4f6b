"""Requests about the runs of one thread, including the requests of producers."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence

from .._calls import Call, not_busy
from .._errors import ThreadlineError
from .._json import JsonObject
from .._limits import WHOLE_RUN_TIMEOUT
from .._records import Appended, RunRecord, StartedRun
from .http import Http


class Runs:
    """Requests about the runs of one thread. With `validate`, the server refuses events that do not conform to AG-UI."""

    def __init__(self, http: Http, thread_id: str, validate: bool = False) -> None:
        self._http = http
        self._validation: Mapping[str, str] = {"validate": "ag-ui"} if validate else {}
        self._path = ["threads", thread_id, "runs"]

    def begin(self, request: str, *, retry_for: Optional[float] = None) -> StartedRun:
        """Starts a run that its caller produces, or takes it up. A repeated request gets the same response."""
        call = Call(
            self._path,
            "POST",
            query=self._validation,
            body=request,
            kind="producers",
            again=not_busy,
            retry_for=retry_for,
        )
        return StartedRun.of(self._http.call(call))

    def put(self, run_id: str, events: Sequence[JsonObject], agent_id: Optional[str]) -> StartedRun:
        """Appends a complete run atomically, or does nothing if the run exists already."""
        call = Call(
            [*self._path, run_id],
            "PUT",
            query={"agentId": agent_id, **self._validation},
            body=list(events),
            kind="producers",
            least=WHOLE_RUN_TIMEOUT,
        )
        return StartedRun.of(self._http.call(call))

    def append(self, run_id: str, attempt: int, producer_seq: int, events: List[str]) -> Appended:
        """Appends events, given as JSON texts, exactly once: `producer_seq` is the number of the first one."""
        query = {"attempt": attempt, "producerSeq": producer_seq, **self._validation}
        body = f"[{','.join(events)}]"
        return Appended.of(self._post(run_id, "events", query, body))

    def heartbeat(self, run_id: str, attempt: int, lease: float, timeout: float) -> RunRecord:
        """Sends one heartbeat, without retries."""
        path = [*self._path, run_id, "heartbeat"]
        body = {"leaseSeconds": int(lease)}
        call = Call(path, "POST", query={"attempt": attempt}, body=body, timeout=timeout)
        return RunRecord.of(self._http.once(call))

    def finish(self, run_id: str, attempt: int, producer_seq: int) -> RunRecord:
        """Ends a run as finished; refused with `producer-seq-gap` if the server has lost events before this number."""
        return RunRecord.of(self._post(run_id, "finish", {"attempt": attempt, "producerSeq": producer_seq}))

    def fail(self, run_id: str, attempt: int, code: str, message: str, *, retry_for: Optional[float] = None) -> RunRecord:
        """Ends a run as failed: open messages and calls are closed, then RUN_ERROR is appended."""
        body = {"code": code, "message": message}
        return RunRecord.of(self._post(run_id, "fail", {"attempt": attempt}, body, retry_for=retry_for))

    def stop(self, run_id: str, epoch: Optional[str]) -> RunRecord:
        call = Call([*self._path, run_id, "stop"], "POST", query={"epoch": epoch})
        return RunRecord.of(self._http.call(call))

    def get(self, run_id: str, *, retry_for: Optional[float] = None) -> RunRecord:
        return RunRecord.of(self._http.call(Call([*self._path, run_id], retry_for=retry_for)))

    def is_known(self, epoch: str, cursor: int) -> bool:
        """True if the server knows the log of a run, perhaps without its newest events; false if the thread is another one."""
        query = {"after": cursor, "epoch": epoch, "limit": 1}
        try:
            self._http.call(Call([*self._path[:2], "events"], query=query))
            return True
        except ThreadlineError as error:
            if getattr(error, "slug", "") == "log-replaced":
                return isinstance(error.problem.get("commonUpTo"), int)
            raise

    def _post(
        self,
        run_id: str,
        what: str,
        query: Mapping[str, Any],
        body: Any = None,
        *,
        retry_for: Optional[float] = None,
    ) -> Any:
        path = [*self._path, run_id, what]
        return self._http.call(Call(path, "POST", query=query, body=body, kind="producers", retry_for=retry_for))
