"""Streams of graphs for `run.pipe`, in runs that another process may take up."""

from __future__ import annotations

from typing import Any, AsyncGenerator, Dict, Generator, List, Mapping, Optional, Protocol, Sequence, Union

from langchain_core.runnables import RunnableConfig

from .._errors import ConfigError
from ..pipe.items import get, key_of
from ..pipe.langgraph import Finished, messages_in

MODES = ("messages", "updates", "values", "custom")
"""The modes whose items `run.pipe` turns into events."""

Modes = Union[str, Sequence[str]]


class _Run(Protocol):
    """A run that this program produces, or that an endpoint returns."""

    run_id: str

    @property
    def resumed(self) -> bool: ...


async def astream(
    run: _Run, graph: Any, input: Any, config: RunnableConfig, *, stream_mode: Modes = MODES, **options: Any
) -> AsyncGenerator[Any, None]:
    """`graph.astream(…)` for `run.pipe`. In a run that was taken up, the graph continues from its last checkpoint.

    The graph needs a checkpointer. After a take-up, the messages of this run in the checkpoint come first, each as a whole, because the
    previous output of the run is superseded. If there is no checkpoint of this run, the graph starts from `input`. The metadata of
    each checkpoint has the ID of the run (`run_id`). A take-up with `on_existing="continue"` raises `ConfigError`, since it keeps messages.
    """
    config = _marked(run, config)
    if run.resumed:
        newest = _newest(config)
        state = await graph.aget_state(newest, subgraphs=bool(options.get("subgraphs")))
        if _is_of(run, state, config):
            oldest = state
            async for oldest in graph.aget_state_history(newest, filter=_mark_of(config)):
                pass
            before = await graph.aget_state(oldest.parent_config) if oldest.parent_config else None
            for item in _taken_up(state, before, stream_mode):
                yield item
            if _has_ended(state):
                return
            input, config = None, newest
    stream = graph.astream(input, config, stream_mode=_listed(stream_mode), **options)
    try:
        async for item in stream:
            yield item
    finally:
        await stream.aclose()


def stream(
    run: _Run, graph: Any, input: Any, config: RunnableConfig, *, stream_mode: Modes = MODES, **options: Any
) -> Generator[Any, None, None]:
    """`graph.stream(…)` for `run.pipe` of a synchronous client: see `astream`."""
    config = _marked(run, config)
    if run.resumed:
        newest = _newest(config)
        state = graph.get_state(newest, subgraphs=bool(options.get("subgraphs")))
        if _is_of(run, state, config):
            oldest = state
            for oldest in graph.get_state_history(newest, filter=_mark_of(config)):
                pass
            before = graph.get_state(oldest.parent_config) if oldest.parent_config else None
            yield from _taken_up(state, before, stream_mode)
            if _has_ended(state):
                return
            input, config = None, newest
    items = graph.stream(input, config, stream_mode=_listed(stream_mode), **options)
    try:
        yield from items
    finally:
        items.close()


def _listed(stream_mode: Modes) -> Any:
    return stream_mode if isinstance(stream_mode, str) else list(stream_mode)


def _marked(run: _Run, config: RunnableConfig) -> RunnableConfig:
    """A config whose checkpoints name the run."""
    return {**config, "metadata": {"run_id": run.run_id, **config.get("metadata", {})}}


def _mark_of(config: RunnableConfig) -> Dict[str, Any]:
    return {"run_id": config.get("metadata", {})["run_id"]}


def _newest(config: RunnableConfig) -> RunnableConfig:
    """The config without `checkpoint_id`, which names the newest checkpoint."""
    given: Mapping[str, Any] = config.get("configurable", {})
    return {**config, "configurable": {name: value for name, value in given.items() if name != "checkpoint_id"}}


def _is_of(run: _Run, state: Any, config: RunnableConfig) -> bool:
    """True if the newest checkpoint is one of this run."""
    if getattr(run, "_on_existing", "restart") == "continue":
        raise ConfigError('a graph continues from its checkpoint: use on_existing="restart", which writes its messages again')
    return bool((state.metadata or {}).get("run_id") == _mark_of(config)["run_id"])


def _has_ended(state: Any) -> bool:
    """True if no step is left. `next` does not tell: it leaves out finished tasks whose step is not stored yet."""
    return not state.tasks


def _taken_up(state: Any, before: Optional[Any], stream_mode: Modes) -> List[Any]:
    """The items that replace those that the previous process has streamed."""
    known = {key_of(get(message, "id")) for message in messages_in(before.values)} if before else set()
    said: List[object] = []
    for message in _messages_of(state):
        key = key_of(get(message, "id"))
        if key not in known:
            known.add(key)
            said.append(message)
    items: List[Any] = [Finished(said)]
    # A graph that has ended does not stream, so its state comes from the checkpoint.
    if _has_ended(state) and "values" in ([stream_mode] if isinstance(stream_mode, str) else stream_mode):
        items.append(("values", state.values))
    return items


def _messages_of(state: Any) -> List[object]:
    """The messages of a graph, and those of its subgraphs that have not ended."""
    inner = [task.state for task in state.tasks if hasattr(task.state, "tasks")]
    return [*messages_in(state.values), *(message for one in inner for message in _messages_of(one))]


__all__ = ["MODES", "astream", "stream"]
