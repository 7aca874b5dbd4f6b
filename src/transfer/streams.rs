//! Export and import of plain streams. A stream that exists already stays unchanged.

use std::{collections::BTreeMap, mem};

use serde::{Deserialize, Serialize};
use threadline_core::{
    ProjectId, Timestamp, UserId,
    kv::KvOwner,
    limits::{MAX_PAGE, STREAM_CHUNKS},
    streams::{Chunk, Producer, Stream, StreamKey, StreamPath, StreamPlace, StreamRecord, StreamState},
};
use threadline_store::{MovedStream, StoreError, StoreResult, StreamPart, StreamTransfer, TransferStore};

use super::{
    directory::{Directory, Facts, NewFile, STREAMS},
    error::{Damage, Refusal, TransferError},
    manifest::FileEntry,
    reading::Lines,
    selection::Selection,
};
use crate::base64_bytes::Bytes64;

/// Bytes up to which chunks are merged into one line.
const PART_BYTES: usize = 1_024 * 1_024;
/// Attempts to read a stream that is changing.
const TRIES: usize = 100;

/// Line of the file: a stream, then its content in order, then its producers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum StreamLine {
    /// Stream without its content.
    Stream(Box<StreamFacts>),
    /// Content of the stream before.
    Chunk(ChunkFacts),
    /// Producer of the stream before.
    Producer(Producer),
}

/// Row of a stream.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StreamFacts {
    project_id: ProjectId,
    /// User who owns the stream; absent for a stream of the project itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_id: Option<UserId>,
    path: String,
    key: StreamKey,
    /// Stream that this one is a fork of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<StreamKey>,
    tag: i64,
    /// True if the stream was deleted, and has forks.
    #[serde(default, skip_serializing_if = "is_false")]
    deleted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    size: i64,
    record: StreamRecord,
}

/// Bytes or messages between two positions.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChunkFacts {
    first: u64,
    last: u64,
    body: Bytes64,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl StreamFacts {
    fn of(moved: &MovedStream) -> Self {
        let MovedStream { place, parent, stream } = moved.clone();
        Self {
            project_id: place.owner.project,
            user_id: place.owner.user,
            path: place.path.as_str().to_owned(),
            key: stream.key,
            parent,
            tag: stream.tag,
            deleted: stream.state == StreamState::Deleted,
            expires_at: stream.expires_at,
            size: stream.size,
            record: stream.record,
        }
    }

    fn stream(self) -> Result<MovedStream, String> {
        let path = StreamPath::new(&self.path).map_err(|error| error.to_string())?;
        let owner = KvOwner { project: self.project_id, user: self.user_id };
        let state = if self.deleted { StreamState::Deleted } else { StreamState::Live };
        let Self { key, parent, tag, expires_at, size, record, .. } = self;
        let stream = Stream { key, tag, state, expires_at, has_forks: false, size, record };
        Ok(MovedStream { place: StreamPlace { owner, path }, parent, stream })
    }
}

/// Writes the streams of the exported owners, in the order of their keys. Returns `None`, and leaves no file, if there are none.
pub async fn write(
    store: &dyn TransferStore,
    directory: &Directory,
    selection: &Selection,
) -> Result<Option<FileEntry>, TransferError> {
    let (mut file, mut count, mut after) = (None, 0, None);
    loop {
        let page = store.all_streams(after, MAX_PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.stream.key);
        for moved in page.into_iter().filter(|moved| selection.takes_owner(&moved.place.owner)) {
            let file = match &mut file {
                Some(file) => file,
                none => none.insert(NewFile::begin(directory, STREAMS)?),
            };
            count += u64::from(write_stream(store, file, moved).await?);
        }
    }
    let Some(file) = file else {
        directory.remove(STREAMS)?;
        return Ok(None);
    };
    let Facts { bytes, sha256 } = file.finish()?;
    Ok(Some(FileEntry { count, bytes, sha256 }))
}

/// Writes a stream as of one moment; false if it was deleted. What is appended meanwhile is left out.
async fn write_stream(
    store: &dyn TransferStore,
    file: &mut NewFile,
    moved: MovedStream,
) -> Result<bool, TransferError> {
    let begin = file.mark();
    let Some((moved, producers)) = of_one_moment(store, moved).await? else { return Ok(false) };
    file.line(&StreamLine::Stream(Box::new(StreamFacts::of(&moved))))?;
    let read = write_content(store, file, &moved.stream).await?;
    if read != moved.stream.record.tail {
        // Content is missing if the stream was deleted meanwhile.
        if now_of(store, &moved).await?.is_none() {
            file.rewind(&begin)?;
            return Ok(false);
        }
        let (path, tail) = (&moved.place.path, moved.stream.record.tail);
        let why = format!("the content of the stream {path} ends at {read} instead of {tail}");
        return Err(StoreError::Corrupt(why).into());
    }
    for producer in producers {
        file.line(&StreamLine::Producer(producer))?;
    }
    Ok(true)
}

/// Row of a stream that is not removed, as it is now.
async fn now_of(store: &dyn TransferStore, moved: &MovedStream) -> Result<Option<Stream>, TransferError> {
    let now = store.stream(&moved.place, None).await?.map(|(now, _)| now);
    Ok(now.filter(|now| now.key == moved.stream.key))
}

/// The row and the producers of a stream as of one moment; `None` if it was deleted.
async fn of_one_moment(
    store: &dyn TransferStore,
    mut moved: MovedStream,
) -> Result<Option<(MovedStream, Vec<Producer>)>, TransferError> {
    for _ in 0..TRIES {
        let producers = producers_of(store, moved.stream.key).await?;
        match now_of(store, &moved).await? {
            Some(now) if now.tag == moved.stream.tag => return Ok(Some((moved, producers))),
            Some(now) => moved.stream = now,
            None => return Ok(None),
        }
    }
    let why = format!("the stream {} is changing too fast: export again", moved.place.path);
    Err(StoreError::Unavailable(why).into())
}

async fn producers_of(store: &dyn TransferStore, key: StreamKey) -> Result<Vec<Producer>, TransferError> {
    let mut all: Vec<Producer> = Vec::new();
    loop {
        let after = all.last().map(|last| last.id.as_str());
        let page = store.stream_producers(key, after, MAX_PAGE).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// Writes the content of a stream up to the tail of its row. Returns the position up to which there is any.
async fn write_content(store: &dyn TransferStore, file: &mut NewFile, stream: &Stream) -> Result<u64, TransferError> {
    let (mut read, tail) = (stream.record.own_from(), stream.record.tail);
    let mut part: Option<Chunk> = None;
    while read < tail {
        let page = store.stream_chunks(stream.key, read, STREAM_CHUNKS, PART_BYTES).await?;
        if page.is_empty() {
            break;
        }
        for chunk in page.into_iter().take_while(|chunk| chunk.last <= tail) {
            read = chunk.last;
            match &mut part {
                Some(part) if part.body.len() + chunk.body.len() <= PART_BYTES => {
                    part.last = chunk.last;
                    part.body.extend(chunk.body);
                }
                part => write_part(file, part.replace(chunk))?,
            }
        }
    }
    write_part(file, part)?;
    Ok(read)
}

fn write_part(file: &mut NewFile, part: Option<Chunk>) -> Result<(), TransferError> {
    let Some(Chunk { first, last, body }) = part else { return Ok(()) };
    file.line(&StreamLine::Chunk(ChunkFacts { first, last, body: Bytes64(body) }))
}

/// Line of the file that was read.
enum Piece {
    /// Row of the next stream.
    Begin(Box<MovedStream>),
    /// Part of the stream before.
    Part(StreamPart),
}

/// Reader of the file, which checks that the content of each stream is complete.
struct Reading {
    lines: Lines<'static>,
    /// Record of the stream that is read, and the position up to which its content was read.
    stream: Option<(StreamRecord, u64)>,
}

impl Reading {
    fn open(directory: &Directory, file: &FileEntry) -> Result<Self, Damage> {
        Ok(Self { lines: Lines::open(directory, STREAMS, file.facts())?, stream: None })
    }

    fn next(&mut self) -> Result<Option<Piece>, Damage> {
        if !self.lines.advance()? {
            self.finish()?;
            return Ok(None);
        }
        match self.lines.parse()? {
            StreamLine::Stream(facts) => {
                self.finish()?;
                let moved = facts.stream().map_err(|error| self.lines.damage(error))?;
                let record = moved.stream.record.clone();
                let from = record.own_from();
                self.stream = Some((record, from));
                Ok(Some(Piece::Begin(Box::new(moved))))
            }
            StreamLine::Chunk(ChunkFacts { first, last, body: Bytes64(body) }) => {
                let Some((record, read)) = &mut self.stream else {
                    return Err(self.lines.damage("content without a stream"));
                };
                let chunk = Chunk { first, last, body };
                if first != *read || last > record.tail || !chunk.is_whole(&record.content_type) {
                    let (read, tail) = (*read, record.tail);
                    let what =
                        format!("content from {first} to {last}, but expected from {read} and at most to {tail}");
                    return Err(self.lines.damage(what));
                }
                *read = last;
                Ok(Some(Piece::Part(StreamPart::Chunk(chunk))))
            }
            StreamLine::Producer(producer) => {
                if self.stream.is_none() || producer.id.is_empty() {
                    return Err(self.lines.damage("a producer without a stream or a name"));
                }
                Ok(Some(Piece::Part(StreamPart::Producer(producer))))
            }
        }
    }

    /// Checks that the content of the stream reaches its tail.
    fn finish(&mut self) -> Result<(), Damage> {
        match self.stream.take() {
            Some((record, read)) if read != record.tail => {
                let what = format!("the content ends at {read} instead of {}", record.tail);
                Err(self.lines.damage(what))
            }
            _ => Ok(()),
        }
    }
}

/// Stores the streams of the selected owners, after the complete file has been validated. Returns those that were not stored.
pub async fn put(
    store: &dyn TransferStore,
    directory: &Directory,
    file: &FileEntry,
    selection: &Selection,
) -> Result<Vec<Refusal>, TransferError> {
    let mut reading = Reading::open(directory, file).map_err(TransferError::Damaged)?;
    while reading.next().map_err(TransferError::Damaged)?.is_some() {}
    let mut reading = Reading::open(directory, file).map_err(TransferError::Damaged)?;
    let mut import = Import { store, staged: BTreeMap::new(), refused: Vec::new() };
    let mut taken = None;
    while let Some(piece) = reading.next().map_err(TransferError::Damaged)? {
        match piece {
            Piece::Begin(moved) => {
                taken = None;
                if selection.takes_owner(&moved.place.owner) && import.stage(&moved).await? {
                    taken = Some(moved.stream.key);
                    import.staged.insert(moved.stream.key, *moved);
                }
            }
            Piece::Part(part) => {
                if let Some(key) = taken {
                    store.stage_stream_part(key, part).await?;
                }
            }
        }
    }
    import.publish_all().await?;
    Ok(import.refused)
}

/// Stream of a store with this key.
pub(super) async fn by_key<S: StreamTransfer + ?Sized>(store: &S, key: StreamKey) -> StoreResult<Option<Stream>> {
    let next = store.all_streams(key.0.checked_sub(1).map(StreamKey), 1).await?;
    Ok(next.into_iter().map(|moved| moved.stream).find(|stream| stream.key == key))
}

/// Import of one file.
struct Import<'s> {
    store: &'s dyn TransferStore,
    /// Streams that are staged, and not published.
    staged: BTreeMap<StreamKey, MovedStream>,
    refused: Vec<Refusal>,
}

impl Import<'_> {
    /// Stages a stream that the store does not have.
    async fn stage(&mut self, moved: &MovedStream) -> Result<bool, TransferError> {
        if self.store.stage_stream(moved).await? {
            return Ok(true);
        }
        match by_key(self.store, moved.stream.key).await? {
            // The stream goes on in this store, or nothing was appended since.
            Some(own) if own.record.tail >= moved.stream.record.tail => {}
            Some(_) => self
                .refuse(moved, "this store has a shorter stream with its key, which was not changed: delete it there"),
            None => self.refuse(moved, "it was deleted here, and is being removed: run the command again later"),
        }
        Ok(false)
    }

    fn refuse(&mut self, moved: &MovedStream, why: &str) {
        let StreamPlace { owner, path } = &moved.place;
        let user = owner.user.as_ref().map(|user| format!(" of user {user}")).unwrap_or_default();
        let what = format!("stream {path}{user} in project {}", owner.project);
        self.refused.push(Refusal { what, why: why.to_owned() });
    }

    /// Publishes the staged streams. A deleted stream is published right before its first fork, because one without forks is given up.
    async fn publish_all(&mut self) -> Result<(), TransferError> {
        let live = self.staged.values().filter(|moved| moved.stream.state == StreamState::Live);
        let live: Vec<StreamKey> = live.map(|moved| moved.stream.key).collect();
        for key in live {
            let mut chain: Vec<_> = self.staged.remove(&key).into_iter().collect();
            while let Some(source) =
                chain.last().and_then(|moved| moved.parent).and_then(|key| self.staged.remove(&key))
            {
                chain.push(source);
            }
            while let Some(moved) = chain.pop() {
                self.publish(moved).await?;
            }
        }
        for key in mem::take(&mut self.staged).into_keys() {
            self.store.unstage_stream(key).await?;
        }
        Ok(())
    }

    async fn publish(&mut self, moved: MovedStream) -> Result<(), TransferError> {
        let key = moved.stream.key;
        for part in &moved.stream.record.inherited {
            if by_key(self.store, part.stream).await?.is_none_or(|source| source.record.tail < part.until) {
                self.store.unstage_stream(key).await?;
                let why = "this store does not have all of the stream that it is a fork of: export both again";
                self.refuse(&moved, why);
                return Ok(());
            }
        }
        if !self.store.publish_stream(key, moved.stream.state).await? {
            self.store.unstage_stream(key).await?;
            self.refuse(&moved, "another stream has its path: delete one of the two, and run the command again");
        }
        Ok(())
    }
}
