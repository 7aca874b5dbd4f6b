"""Errors of streams."""

from .._errors import ThreadlineError


class StreamFailed(ThreadlineError):
    """The stream has reported an error. ``__cause__`` is the exception, if the stream has one."""
