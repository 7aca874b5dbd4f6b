//! Readers: they follow threads on any live node, and continue from their cursor after each break. They record every
//! delivery as it is, gaps included: the checker judges.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use threadline_client::{ClientFrame, EndReason, Problem, ServerFrame};
use tokio::time::{Instant, timeout};

use crate::{
    history::{Class, Line, Micros, digest, now},
    world::{Caller, PATIENCE, World},
};

/// Threads of the load are never silent for this long: a longer silence means a dead node.
const SILENCE: Duration = Duration::from_secs(3);

/// A cursor on a thread, and its reader.
#[derive(Debug)]
struct Cursor {
    thread: String,
    /// Changes when the reader starts from the beginning.
    reader: String,
    seq: u64,
    epoch: Option<String>,
}

#[derive(Debug)]
pub struct Reader {
    caller: Caller,
    name: String,
    lives: u64,
    cursors: Vec<Cursor>,
    /// Moment of the next move to another node, wanted or not.
    moves: Instant,
    /// When the connection of the moment was asked for.
    asked: Micros,
}

/// What a reader was sent of one thread.
struct Piece<'a> {
    first: u64,
    events: Vec<(&'a str, &'a str)>,
}

impl Reader {
    pub fn new(world: Arc<World>, name: &str, threads: &[String], stream: u64) -> Self {
        let caller = Caller::new(world, &format!("reader-{name}"), stream);
        let cursor =
            |thread: &String| Cursor { thread: thread.clone(), reader: format!("{name}.0"), seq: 0, epoch: None };
        let cursors = threads.iter().map(cursor).collect();
        Self { caller, name: name.to_owned(), lives: 0, cursors, moves: Instant::now(), asked: 0 }
    }

    /// Follows over sockets until reading ends.
    pub async fn over_sockets(mut self) {
        while self.reads_on() {
            self.settle();
            if self.socket().await.is_none() {
                self.caller.hop();
                self.caller.breathe(150).await;
            }
        }
        self.stand();
    }

    /// Follows over event streams until reading ends.
    pub async fn over_streams(mut self) {
        while self.reads_on() {
            self.settle();
            if self.stream().await.is_none() {
                self.caller.hop();
                self.caller.breathe(150).await;
            }
        }
        self.stand();
    }

    /// Before it connects: when it will move on, and whether it reads all from the beginning.
    fn settle(&mut self) {
        let rng = &mut self.caller.rng;
        self.moves = Instant::now() + Duration::from_millis(rng.between(1_000, 20_000));
        if rng.chance(30) {
            self.caller.hop();
        }
        if self.caller.rng.chance(self.caller.world.size.anew) {
            self.lives += 1;
            for cursor in &mut self.cursors {
                (cursor.reader, cursor.seq, cursor.epoch) = (format!("{}.{}", self.name, self.lives), 0, None);
            }
        }
    }

    fn stand(&self) {
        for Cursor { thread, reader, seq, .. } in &self.cursors {
            self.caller.history.write(&Line::Stood { reader: reader.clone(), thread: thread.clone(), cursor: *seq });
        }
        self.caller.history.flush();
    }

    /// Whether it stays on this connection.
    fn stays(&self) -> bool {
        self.reads_on() && Instant::now() < self.moves
    }

    fn reads_on(&self) -> bool {
        self.caller.world.reads_on(self.cursors.iter().map(|cursor| (cursor.thread.as_str(), cursor.seq)))
    }

    fn joined(&mut self, thread: &str, after: u64, epoch: &str, tail: u64) {
        let node = self.caller.node;
        let Some(cursor) = self.cursors.iter_mut().find(|cursor| cursor.thread == thread) else {
            let what = format!("node {node} lets a reader in to {thread}, which it did not ask for");
            return self.caller.world.wrong(Class::Lost, what);
        };
        cursor.epoch = Some(epoch.to_owned());
        let (reader, thread, epoch) = (cursor.reader.clone(), thread.to_owned(), epoch.to_owned());
        self.caller.history.write(&Line::Joined { asked: self.asked, at: now(), reader, thread, after, epoch, tail });
    }

    fn read(&mut self, thread: &str, piece: &Piece<'_>) {
        let Some(cursor) = self.cursors.iter_mut().find(|cursor| cursor.thread == thread) else { return };
        let digests: Vec<_> = piece.events.iter().map(|(run, payload)| digest(run, payload.as_bytes())).collect();
        cursor.seq = piece.first + digests.len() as u64 - 1;
        let (reader, thread, first) = (cursor.reader.clone(), thread.to_owned(), piece.first);
        self.caller.history.write(&Line::Read { at: now(), reader, thread, first, digests });
    }

    fn rebased(&mut self, thread: &str, from: &str, epoch: &str, after: u64) {
        let Some(cursor) = self.cursors.iter_mut().find(|cursor| cursor.thread == thread) else { return };
        cursor.epoch = Some(epoch.to_owned());
        let (reader, thread) = (cursor.reader.clone(), thread.to_owned());
        let (from, epoch) = (from.to_owned(), epoch.to_owned());
        self.caller.history.write(&Line::Rebased { at: now(), reader, thread, from, epoch, after });
    }

    /// Forgets what is not in the present log.
    fn replaced(&mut self, thread: &str, epoch: Option<&str>, common: Option<u64>) {
        let Some(cursor) = self.cursors.iter_mut().find(|cursor| cursor.thread == thread) else { return };
        let epoch = common.and(epoch).map(str::to_owned);
        (cursor.seq, cursor.epoch) = (common.unwrap_or(0), epoch.clone());
        let (reader, thread) = (cursor.reader.clone(), thread.to_owned());
        self.caller.history.write(&Line::Replaced { at: now(), reader, thread, epoch, common });
    }

    /// Takes a refusal that a loss of commits explains; false if it is another one.
    fn is_replaced(&mut self, thread: &str, problem: &Problem) -> bool {
        if problem.slug == "log-replaced" {
            let common = problem.facts.get("commonUpTo").and_then(Value::as_u64);
            self.replaced(thread, problem.facts.get("epoch").and_then(Value::as_str), common);
        }
        problem.slug == "log-replaced"
    }

    /// One connection; `None` if the node is of no use.
    async fn socket(&mut self) -> Option<()> {
        let client = self.caller.client();
        self.asked = now();
        let mut socket = timeout(PATIENCE, client.socket()).await.ok()?.ok()?;
        let world = self.caller.world.clone();
        let _here = Here::new(&world);
        for cursor in &self.cursors {
            let (thread_id, epoch) = (cursor.thread.clone(), cursor.epoch.clone());
            let frame = ClientFrame::Subscribe { thread_id, after: cursor.seq, epoch, run_id: None };
            timeout(PATIENCE, socket.send(Some(&cursor.thread), &frame)).await.ok()?.ok()?;
        }
        while self.stays() {
            let text = timeout(SILENCE, socket.next_text()).await.ok()?.ok()?;
            let (id, frame) = ServerFrame::<&RawValue>::parse(&text).inspect_err(|error| self.nonsense(error)).ok()?;
            match frame {
                ServerFrame::Hello(hello) => self.joined(&hello.thread_id, hello.after, &hello.epoch, hello.tail),
                ServerFrame::Events(events) => {
                    let Some(first) = events.batches.first().map(|batch| batch.seq) else { continue };
                    let mut piece = Piece { first, events: Vec::new() };
                    for batch in &events.batches {
                        if batch.seq != piece.first + piece.events.len() as u64 {
                            self.nonsense(&format!("a frame with a gap before {}", batch.seq));
                        }
                        piece.events.extend(batch.events.iter().map(|event| (&*batch.run_id, event.get())));
                    }
                    let known = |cursor: &Cursor| {
                        *cursor.thread == *events.thread_id && cursor.epoch.as_deref() == Some(&*events.epoch)
                    };
                    if !self.cursors.iter().any(known) {
                        self.nonsense(&format!("events of {} under epoch {}", events.thread_id, events.epoch));
                    }
                    self.read(&events.thread_id, &piece);
                }
                ServerFrame::Rebased(told) => self.rebased(&told.thread_id, &told.from, &told.epoch, told.after),
                ServerFrame::Ended(ended) if ended.reason == EndReason::LogReplaced => {
                    self.replaced(&ended.thread_id, ended.epoch.as_deref(), ended.common_up_to);
                    return None;
                }
                ServerFrame::Error(problem) if self.is_replaced(id.as_deref().unwrap_or_default(), &problem) => {
                    return None;
                }
                ServerFrame::Error(problem) => {
                    if problem.status < 500 {
                        self.nonsense(&format!("{id:?} is refused: {problem}"));
                    }
                    return None;
                }
                ServerFrame::Closing { .. } => return None,
                _ => {}
            }
        }
        let _ = timeout(PATIENCE, socket.close()).await;
        Some(())
    }

    /// One event stream of the first thread; `None` if the node is of no use.
    async fn stream(&mut self) -> Option<()> {
        let Cursor { thread, seq, epoch, .. } = &self.cursors[0];
        let (thread, base) = (thread.clone(), &self.caller.world.urls[self.caller.node]);
        let epoch = epoch.as_ref().map(|epoch| format!("&epoch={epoch}")).unwrap_or_default();
        let url = format!("{base}/v1/threads/{thread}/events?after={seq}{epoch}");
        self.asked = now();
        let request = self.caller.world.http.get(url).header("accept", "text/event-stream").send();
        let response = timeout(PATIENCE, request).await.ok()?.ok()?;
        match response.status().as_u16() {
            200 => {}
            410 => {
                let body = timeout(PATIENCE, response.json()).await.ok()?;
                let problem = Problem::from_members(body.inspect_err(|error| self.nonsense(error)).ok()?, 410);
                if !self.is_replaced(&thread, &problem) {
                    self.nonsense(&format!("an event stream of {thread} is refused: {problem}"));
                }
                return None;
            }
            status => {
                if status < 500 {
                    self.nonsense(&format!("an event stream of {thread} is refused: {status}"));
                }
                return None;
            }
        }
        let world = self.caller.world.clone();
        let _here = Here::new(&world);
        let (mut body, mut buffer, mut epoch) = (response.bytes_stream(), Vec::new(), String::new());
        while self.stays() {
            buffer.extend_from_slice(&timeout(SILENCE, body.next()).await.ok()??.ok()?);
            // A message that did not come whole does not count.
            let Some(end) = buffer.windows(2).rposition(|pair| pair == b"\n\n") else { continue };
            let text =
                String::from_utf8(buffer.drain(..end + 2).collect()).inspect_err(|error| self.nonsense(error)).ok()?;
            self.messages(&thread, &mut epoch, &text)?;
        }
        Some(())
    }

    /// Whole messages of an event stream, whose `hello` gives the epoch of all ids after it; `None` if it says that it ends.
    fn messages(&mut self, thread: &str, epoch: &mut String, text: &str) -> Option<()> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Hello {
            epoch: String,
            tail: u64,
            after: u64,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Envelope<'a> {
            seq: u64,
            run_id: &'a str,
            #[serde(borrow)]
            event: &'a RawValue,
        }
        #[derive(Deserialize)]
        struct Rebased {
            from: String,
            epoch: String,
            after: u64,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Ended {
            reason: EndReason,
            epoch: Option<String>,
            common_up_to: Option<u64>,
        }
        let mut piece: Option<Piece<'_>> = None;
        for message in text.split("\n\n") {
            let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name));
            let Some(data) = field("data: ") else { continue };
            match field("event: ") {
                None => {
                    let event: Envelope<'_> =
                        serde_json::from_str(data).inspect_err(|error| self.nonsense(error)).ok()?;
                    let id = field("id: ").and_then(|id| id.split_once(':'));
                    if id.is_none_or(|(given, seq)| given != epoch.as_str() || seq != event.seq.to_string()) {
                        self.nonsense(&format!("the id of an event is not its epoch and its seq {}", event.seq));
                    }
                    let goes_on = |piece: &Piece<'_>| piece.first + piece.events.len() as u64 == event.seq;
                    if let Some(before) = piece.take_if(|piece| !goes_on(piece)) {
                        self.read(thread, &before);
                    }
                    let piece = piece.get_or_insert_with(|| Piece { first: event.seq, events: Vec::new() });
                    piece.events.push((event.run_id, event.event.get()));
                }
                Some("hello") => {
                    let hello: Hello = serde_json::from_str(data).inspect_err(|error| self.nonsense(error)).ok()?;
                    epoch.clone_from(&hello.epoch);
                    self.joined(thread, hello.after, &hello.epoch, hello.tail);
                }
                Some("caught_up" | "fell_behind" | "heartbeat") => {}
                Some(name) => {
                    if let Some(before) = piece.take() {
                        self.read(thread, &before);
                    }
                    if name == "rebased" {
                        let told: Rebased =
                            serde_json::from_str(data).inspect_err(|error| self.nonsense(error)).ok()?;
                        epoch.clone_from(&told.epoch);
                        self.rebased(thread, &told.from, &told.epoch, told.after);
                        continue;
                    }
                    if name == "ended" {
                        let told: Ended = serde_json::from_str(data).inspect_err(|error| self.nonsense(error)).ok()?;
                        if told.reason == EndReason::LogReplaced {
                            self.replaced(thread, told.epoch.as_deref(), told.common_up_to);
                        }
                    }
                    return None;
                }
            }
        }
        if let Some(piece) = piece {
            self.read(thread, &piece);
        }
        Some(())
    }

    fn nonsense(&self, what: &dyn std::fmt::Display) {
        self.caller.world.wrong(Class::Lost, format!("reader {} on node {}: {what}", self.name, self.caller.node));
    }
}

/// Counts a reader that is connected.
struct Here<'a>(&'a World);

impl<'a> Here<'a> {
    fn new(world: &'a World) -> Self {
        world.readers.fetch_add(1, Ordering::Relaxed);
        Self(world)
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::Relaxed);
    }
}
