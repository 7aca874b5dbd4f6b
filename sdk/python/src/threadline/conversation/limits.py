"""Limits of the fold: those of the server, one named constant each."""

from typing import Final

#: Deepest nesting of an event, and of the result of a patch.
MAX_JSON_DEPTH: Final = 128
#: Approximate size of a state, in bytes of JSON, that no STATE_DELTA may make it exceed; the same for one activity's
#: content, and for all bytes that ``copy`` operations of ACTIVITY_DELTAs put into a conversation.
MAX_STATE_BYTES: Final = 16 * 1_024 * 1_024
#: Work that the patches of a conversation may cost at first, beyond their own length: array elements moved aside, bytes
#: of values that are copied or moved deeper.
PATCH_WORK: Final = 16 * 1_024 * 1_024
#: Work added to the budget for each byte of the events of state and activities.
PATCH_WORK_PER_BYTE: Final = 32
#: Longest id that the server accepts, in bytes of UTF-8.
MAX_ID_BYTES: Final = 256
#: Most interrupts that stay open over a run that neither answers nor repeats them.
MAX_OPEN_INTERRUPTS: Final = 256
#: Approximate size of these interrupts, in bytes of JSON.
MAX_OPEN_INTERRUPT_BYTES: Final = 1_024 * 1_024
#: Most interrupts that are open at all: the input of a run can answer no more.
MAX_ANSWERS: Final = 1_000
#: Objects that are kept as changeable between two reads. Beyond that number all become immutable: one more copy of an
#: object that changes again, for a bound on memory.
MAX_DRAFTS: Final = 65_536
