"""A `ConversationStore` of pydantic-ai (`pydantic-ai-slim` from 2.66 on), on item lists and key-value entries."""

from __future__ import annotations

import hashlib
from typing import AsyncIterator, Dict, Iterable, List, Optional, Sequence

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry, ConversationRecord, ConversationStore
from pydantic_ai.messages import ModelMessagesTypeAdapter

from ._async.client import AsyncThreadline
from ._async.items import AsyncItems
from ._json import JsonObject, to_json
from ._limits import ITEM_PAGE, KV_BATCH, LIST_CHUNK_BYTES, LIST_WRITES
from ._opening import UNSET
from ._settled import settled
from .kv import Delete, Put
from .problems import ItemsChanged, ItemsConflict, KvChanged, ThreadNotFound

LIST = "pydantic-ai"
"""Name of the item list with the entries of a conversation: all branches, each entry after its parent."""
RECORDS = ("pydantic-ai", "conversations")
"""Namespace of the records. The key is the id of the conversation."""
ENTRIES = ("pydantic-ai", "entries")
"""First labels of the namespaces of entries; the last label is the id of the entry. Keys are conversations whose lists have it."""

_RECORD: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


class ThreadlineConversations(ConversationStore):
    """A `ConversationStore` whose conversations belong to threads: the id of a conversation is the id of its thread.

    A save is one commit: new entries are added to the item list `pydantic-ai` of the thread, and the record is a key-value entry that
    is deleted with the thread. The first save creates the thread for `user_id`, by default for the client's user. A fork copies
    the entries that it keeps. `delete` removes the messages, and keeps the thread.
    """

    def __init__(self, client: AsyncThreadline, *, user_id: Optional[str] = None) -> None:
        self._client = client
        self._user_id = user_id

    async def read_record(self, conversation_id: str) -> Optional[ConversationRecord]:
        entry = await self._client.kv.get(RECORDS, conversation_id)
        return None if entry is None else _record_of(entry.value)

    async def read_records(self, *, scope: Optional[str] = None, limit: Optional[int] = None) -> Sequence[ConversationRecord]:
        records: List[ConversationRecord] = []
        cursor: Optional[str] = None
        wanted = None if scope is None else {"scope": {"$eq": scope}}
        while True:
            found = await self._client.kv.search(RECORDS, filter=wanted, limit=ITEM_PAGE, cursor=cursor)
            records += [_record_of(entry.value) for entry in found.items]
            cursor = found.cursor
            if cursor is None:
                records.sort(key=lambda record: record.updated_at, reverse=True)
                return records[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: Optional[str],
    ) -> None:
        await settled(self._write(record, list(new_entries), expected_revision))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        await settled(self._delete(conversation_id, expected_revision))

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        return (await self.read_history(entry_id, limit=1))[0]

    async def read_history(self, head_id: Optional[str], *, limit: Optional[int] = None) -> List[ConversationEntry]:
        if head_id is None or limit == 0:
            return []
        return _entries_of(await self._found(head_id, limit))

    def _items(self, conversation_id: str) -> AsyncItems:
        return self._client.thread(conversation_id).items(LIST)

    async def _write(self, record: ConversationRecord, entries: List[ConversationEntry], expected_revision: Optional[str]) -> None:
        conversation_id = record.conversation_id
        try:
            items = [_item_of(entry) for entry in entries]
            if record.head_id is not None and record.head_id not in {entry.id for entry in entries}:
                items = await self._taken_along(conversation_id, record.head_id) + items
            try:
                await self._store(record, items, expected_revision)
            except ThreadNotFound:
                if expected_revision is not None:
                    raise  # the record was deleted with its thread
                await self._client.threads.get_or_create(conversation_id, user_id=self._user_id)
                await self._store(record, items, expected_revision)
        except (KvChanged, ItemsChanged, ItemsConflict, ThreadNotFound) as error:
            raise ConversationConflict(conversation_id) from error

    async def _taken_along(self, conversation_id: str, head_id: str) -> List[JsonObject]:
        """Entries up to `head_id` that a fork copies; none if the conversation has them."""
        if await self._chain(conversation_id, head_id, 1):
            return []
        try:
            return await self._found(head_id, None)
        except LookupError as error:
            raise ConversationConflict(conversation_id) from error

    async def _store(self, record: ConversationRecord, items: List[JsonObject], expected_revision: Optional[str]) -> None:
        """Stores entries and the record in one commit. Entries beyond 8 MiB are stored before: no record refers to them yet.

        All keys and tags are derived from the revision, so a save that the caller repeats is the same operation.
        """
        save = hashlib.sha256(record.revision.encode("utf-8", "surrogatepass")).hexdigest()
        conversation_id = record.conversation_id
        document = _RECORD.dump_python(record, mode="json")
        # The revision is the tag, so a conflict is one of tags, and a repeated request is recognized.
        put = Put(RECORDS, conversation_id, document, None, expected_revision, record.revision, conversation_id)
        places = [Put((*ENTRIES, item["id"]), conversation_id, True, tag=save, thread_id=conversation_id) for item in items]
        early = max(0, len(places) - (LIST_WRITES - 1))
        for start in range(0, early, KV_BATCH):
            await self._client.kv.batch(places[start : min(early, start + KV_BATCH)])
        if not items:
            await self._client.kv.batch([put])
            return
        *before, last = _chunks(items)
        tag: Optional[str] = UNSET
        for number, chunk in enumerate(before):
            tag = (await self._items(conversation_id).append(chunk, if_tag=tag, key=f"{save}-{number}")).tag
        await self._items(conversation_id).append(last, if_tag=tag, kv=[put, *places[early:]], key=save)

    async def _delete(self, conversation_id: str, expected_revision: str) -> None:
        try:
            ids = [one.item["id"] async for one in self._items(conversation_id)]
            record = Delete(RECORDS, conversation_id, if_tag=expected_revision)
            await self._items(conversation_id).replace([], kv=[record])
        except (KvChanged, ThreadNotFound) as error:
            raise ConversationConflict(conversation_id) from error
        # If the process ends here, the remaining keys refer to no entry, and are deleted with the thread.
        for start in range(0, len(ids), KV_BATCH):
            await self._client.kv.batch([Delete((*ENTRIES, entry_id), conversation_id) for entry_id in ids[start : start + KV_BATCH]])

    async def _found(self, head_id: str, limit: Optional[int]) -> List[JsonObject]:
        """The items of the entries up to `head_id`, from any conversation that has them."""
        async for conversation_id in self._holders(head_id):
            chain = await self._chain(conversation_id, head_id, limit)
            if chain:
                return chain
        raise LookupError(f"there is no entry {head_id!r}")

    async def _holders(self, entry_id: str) -> AsyncIterator[str]:
        cursor: Optional[str] = None
        while True:
            found = await self._client.kv.search((*ENTRIES, entry_id), cursor=cursor)
            for entry in found.items:
                yield entry.key
            cursor = found.cursor
            if cursor is None:
                return

    async def _chain(self, conversation_id: str, head_id: str, limit: Optional[int]) -> List[JsonObject]:
        """The items of a conversation from the first one, or the last `limit` ones, up to `head_id`; none if it is not there.

        Entries come after their parents, and none changes, so one pass from the end finds all of them.
        """
        chain: List[JsonObject] = []
        wanted: Optional[str] = head_id
        before: Optional[int] = None
        try:
            while True:
                page = await self._items(conversation_id).page(limit=ITEM_PAGE, before=before)
                for one in reversed(page.items):
                    if one.item["id"] == wanted:
                        chain.append(one.item)
                        wanted = one.item["parentId"]
                        if wanted is None or len(chain) == limit:
                            return chain[::-1]
                if not page.has_more or not page.items:
                    return []
                before = page.items[0].pos
        except ThreadNotFound:
            return []


def _chunks(items: Iterable[JsonObject]) -> List[List[JsonObject]]:
    """Items in parts of at most 8 MiB, or of one item."""
    chunks: List[List[JsonObject]] = [[]]
    size = 0
    for item in items:
        length = len(to_json(item))
        if chunks[-1] and size + length > LIST_CHUNK_BYTES:
            chunks.append([])
            size = 0
        chunks[-1].append(item)
        size += length
    return chunks


def _item_of(entry: ConversationEntry) -> JsonObject:
    [message] = ModelMessagesTypeAdapter.dump_python([entry.message], mode="json")
    return {"id": entry.id, "parentId": entry.parent_id, "kind": entry.kind, "message": message}


def _entries_of(items: List[JsonObject]) -> List[ConversationEntry]:
    documents = [item["message"] for item in items]
    try:
        messages = ModelMessagesTypeAdapter.validate_json(to_json(documents))
    except ValidationError:
        # pydantic does not accept lone surrogates in JSON text.
        messages = ModelMessagesTypeAdapter.validate_python(documents)
    pairs = zip(items, messages, strict=True)
    return [ConversationEntry(id=item["id"], parent_id=item["parentId"], message=message) for item, message in pairs]


def _record_of(document: Dict[str, object]) -> ConversationRecord:
    try:
        return _RECORD.validate_json(to_json(document))
    except ValidationError:
        return _RECORD.validate_python(document)


__all__ = ["ENTRIES", "LIST", "RECORDS", "ThreadlineConversations"]
