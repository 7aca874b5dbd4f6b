"""Limits of the mappers, one named constant each."""

from typing import Final

#: Characters of JSON beyond which an item that is kept as it is, in a CUSTOM event, is only named.
MAX_KEPT_CHARS: Final = 1_000_000
#: Nesting beyond which a kept item is cut, and any other is not mapped: the server accepts events of at most 128 levels.
MAX_KEPT_DEPTH: Final = 100
#: Objects and lists beyond which an item is not mapped: events of 8 MiB hold fewer that say anything.
MAX_VALUES: Final = 1_000_000
#: Objects and lists in a kept item beyond which the rest is only named.
MAX_KEPT_VALUES: Final = 10_000
