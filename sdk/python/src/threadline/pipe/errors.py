"""Errors of streams."""


class StreamFailed(Exception):
    """The stream has reported an error. ``__cause__`` is the exception, if the stream has one."""
