//! Bounds of each incomplete message of a socket: a deadline, a least rate, and memory. The WebSocket library returns
//! complete messages, and holds incomplete ones without a limit of time or a notice. So this module inspects incoming
//! bytes on their way to the library.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use threadline_core::limits::{
    FRAME_FREE_BYTES, FRAME_STEP_BYTES, SOCKET_SLOWEST_MESSAGE, SOCKET_SLOWEST_MESSAGE_GRACE,
};
use threadline_engine::limits::BudgetPermit;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};
use tokio_tungstenite::tungstenite::Error;

/// Longest header of a frame, in bytes: two, a length of eight, a mask of four.
const MAX_HEADER: usize = 14;

/// Fails a read once a message that has begun was not complete within `limit`, or is sent too slowly. Idle connections
/// have no timer, and control frames between the frames of a message extend nothing. The bytes of an incomplete message
/// are counted, and while no memory is available the connection is read no further.
pub(super) struct MessageDeadline<T> {
    inner: T,
    limit: Duration,
    frames: Frames,
    message: Option<Incomplete>,
    memory: Memory,
    /// True once the message was not read for lack of memory.
    waited: bool,
}

/// Message of which a part was received.
struct Incomplete {
    begun: Instant,
    /// Time from which its rate is measured, and the bytes that it had then.
    measured: (Instant, u64),
    timer: Pin<Box<Sleep>>,
}

/// Memory of the incomplete message.
enum Memory {
    Held(BudgetPermit),
    /// The permit, and whether it took the bytes.
    Waiting(Pin<Box<dyn Future<Output = (BudgetPermit, bool)> + Send>>),
}

impl<T: fmt::Debug> fmt::Debug for MessageDeadline<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageDeadline")
            .field("inner", &self.inner)
            .field("frames", &self.frames)
            .finish_non_exhaustive()
    }
}

impl Incomplete {
    /// Time from which the message is overdue.
    fn due(&self, limit: Duration, held: u64, memory: &Memory) -> Instant {
        let due = self.begun + limit;
        // A small message holds little and may be slow. A message that is not read is not slow.
        if held <= FRAME_FREE_BYTES || matches!(memory, Memory::Waiting(_)) {
            return due;
        }
        let (since, before) = self.measured;
        let worth = Duration::from_secs_f64(held.saturating_sub(before) as f64 / SOCKET_SLOWEST_MESSAGE as f64);
        due.min(since + worth.max(SOCKET_SLOWEST_MESSAGE_GRACE))
    }
}

impl<T> MessageDeadline<T> {
    /// Wraps a connection. The permit takes the memory of its incomplete messages.
    pub(super) fn new(inner: T, limit: Duration, memory: BudgetPermit) -> Self {
        Self { inner, limit, frames: Frames::default(), message: None, memory: Memory::Held(memory), waited: false }
    }

    pub(super) fn restart(&mut self) {
        if let Some(message) = &mut self.message {
            (message.begun, message.measured) = (Instant::now(), (Instant::now(), self.frames.held));
            let due = message.due(self.limit, self.frames.held, &self.memory);
            message.timer.as_mut().reset(due);
        }
    }

    fn observe(&mut self, bytes: &[u8]) {
        if self.frames.observe(bytes) {
            self.message = None;
            if let Memory::Held(permit) = &mut self.memory {
                permit.release();
            }
        }
        if self.frames.is_at_rest() {
            return;
        }
        let (now, limit, held) = (Instant::now(), self.limit, self.frames.held);
        let message = self.message.get_or_insert_with(|| Incomplete {
            begun: now,
            measured: (now, 0),
            timer: Box::pin(sleep_until(now + limit)),
        });
        let due = message.due(limit, held, &self.memory);
        // A later time is looked at once the timer fires.
        if due < message.timer.deadline() {
            message.timer.as_mut().reset(due);
        }
        self.count();
    }

    /// Requests memory for the bytes of the incomplete message.
    fn count(&mut self) {
        let (Some(message), Memory::Held(permit)) = (&self.message, &mut self.memory) else { return };
        let counted = usize::try_from(self.frames.held.saturating_sub(FRAME_FREE_BYTES)).unwrap_or(usize::MAX);
        let more = counted.saturating_sub(permit.bytes());
        if more == 0 {
            return;
        }
        let (mut permit, until) = (permit.take_over(), message.begun + self.limit);
        self.memory = Memory::Waiting(Box::pin(async move {
            let taken = permit.take(more.next_multiple_of(FRAME_STEP_BYTES), until).await.is_ok();
            (permit, taken)
        }));
    }

    fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(message) = &mut self.message else { return Poll::Pending };
        loop {
            ready!(message.timer.as_mut().poll(context));
            let due = message.due(self.limit, self.frames.held, &self.memory);
            if due <= Instant::now() {
                return Poll::Ready(Err(overdue()));
            }
            message.timer.as_mut().reset(due);
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for MessageDeadline<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Memory::Waiting(memory) = &mut self.memory {
            let Poll::Ready((permit, taken)) = memory.as_mut().poll(context) else {
                self.waited = true;
                return self.poll_overdue(context);
            };
            self.memory = Memory::Held(permit);
            if !taken {
                return Poll::Ready(Err(overdue()));
            }
            let (held, waited) = (self.frames.held, std::mem::take(&mut self.waited));
            if let Some(message) = self.message.as_mut().filter(|_| waited) {
                message.measured = (Instant::now(), held);
            }
        }
        let before = buf.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(context, buf);
        if result.is_ready() {
            self.observe(&buf.filled()[before..]);
            return result;
        }
        self.poll_overdue(context)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for MessageDeadline<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

fn overdue() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, Overdue)
}

/// A message that was not complete before the timeout.
#[derive(Debug, thiserror::Error)]
#[error("a message was not complete before the timeout")]
struct Overdue;

/// True if a read failed because a message was not complete before the timeout.
pub fn is_overdue(error: &Error) -> bool {
    matches!(error, Error::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<Overdue>()))
}

/// Position of the stream between the frames of RFC 6455, section 5.2. The library refuses violations of its rules.
#[derive(Debug, Default)]
struct Frames {
    header: [u8; MAX_HEADER],
    /// Received bytes of the header.
    came: usize,
    /// Missing bytes of the payload.
    left: u64,
    /// A message has begun whose last frame has not.
    open: bool,
    /// Received bytes of the incomplete message.
    held: u64,
    /// Kind of the current frame: a control frame, or the last frame of its message.
    control: bool,
    last: bool,
}

impl Frames {
    /// True if no message and no frame is incomplete.
    fn is_at_rest(&self) -> bool {
        self.came == 0 && self.left == 0 && !self.open
    }

    /// Processes the next bytes. Returns true if the stream was idle at any point within them.
    fn observe(&mut self, mut bytes: &[u8]) -> bool {
        let mut rested = false;
        while let Some((first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let taken = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= taken as u64;
                self.held += if self.control { 0 } else { taken as u64 };
                bytes = &bytes[taken..];
            } else {
                self.header[self.came] = *first;
                self.came += 1;
                bytes = rest;
                if self.came < self.header_bytes() {
                    continue;
                }
                self.begin();
            }
            if self.left == 0 {
                self.open = if self.control { self.open } else { !self.last };
                if self.is_at_rest() {
                    (rested, self.held) = (true, 0);
                }
            }
        }
        rested
    }

    /// Length of the header in bytes, as far as it is known.
    fn header_bytes(&self) -> usize {
        if self.came < 2 {
            return 2;
        }
        let length = match self.header[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        2 + length + if self.header[1] & 0x80 == 0 { 0 } else { 4 }
    }

    /// Starts the frame of a complete header.
    fn begin(&mut self) {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        self.left = match self.header[1] & 0x7f {
            126 => number(&self.header[2..4]),
            127 => number(&self.header[2..10]),
            length => u64::from(length),
        };
        self.last = self.header[0] & 0x80 != 0;
        self.control = self.header[0] & 0x08 != 0;
        self.came = 0;
    }
}

#[cfg(test)]
mod tests {
    use threadline_engine::limits::{BudgetOwner, MemoryBudget, MemoryKind};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// A masked frame: its first byte, and a payload of `length` bytes.
    fn frame(first: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![first];
        match length {
            0..=125 => frame.push(0x80 | length as u8),
            126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
            _ => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend([1, 2, 3, 4]);
        frame.resize(frame.len() + length, 0x81);
        frame
    }

    const TEXT: u8 = 0x81;
    const BEGIN: u8 = 0x01;
    const MORE: u8 = 0x00;
    const END: u8 = 0x80;
    const PING: u8 = 0x89;

    #[test]
    fn a_stream_is_idle_only_between_messages_however_it_is_split() {
        let frames = [
            (TEXT, 5, true),
            (PING, 0, true),
            (BEGIN, 200, false),
            (PING, 125, false),
            (MORE, 0, false),
            (END, 70_000, true),
            (TEXT, 0, true),
            (TEXT, 126, true),
        ];
        for cut in [1, 2, 3, 7, 64, 1_000, usize::MAX] {
            let mut stream = Frames::default();
            for (first, length, rests) in frames {
                let bytes = frame(first, length);
                let (body, last) = bytes.split_at(bytes.len() - 1);
                for piece in body.chunks(cut) {
                    assert!(!stream.observe(piece) && !stream.is_at_rest());
                }
                assert_eq!((stream.observe(last), stream.is_at_rest()), (rests, rests), "{first:x} {length} {cut}");
            }
        }
        let all: Vec<u8> = frames.iter().flat_map(|(first, length, _)| frame(*first, *length)).collect();
        let mut stream = Frames::default();
        assert!(stream.observe(&all) && stream.is_at_rest());
        assert!(stream.observe(&[&all[..], &frame(TEXT, 9)[..3]].concat()) && !stream.is_at_rest());
    }

    const LIMIT: Duration = Duration::from_secs(30);

    /// Reads until a failure: the seconds until then, and true if a message was overdue.
    async fn reads(near: DuplexStream) -> (u64, bool) {
        reads_with(near, budget(1_000).place(MemoryKind::Frame, &BudgetOwner::default())).await
    }

    async fn reads_with(near: DuplexStream, memory: BudgetPermit) -> (u64, bool) {
        let begun = Instant::now();
        let mut near = MessageDeadline::new(near, LIMIT, memory);
        let mut buffer = [0; 512];
        loop {
            match near.read(&mut buffer).await {
                Ok(0) => return (begun.elapsed().as_secs(), false),
                Ok(_) => {}
                Err(error) => return (begun.elapsed().as_secs(), is_overdue(&Error::Io(error))),
            }
        }
    }

    /// Sends each piece, a number of seconds after the one before, then keeps the connection open for long.
    async fn sent(pieces: Vec<(u64, Vec<u8>)>) -> (u64, bool) {
        let (near, mut far) = duplex(1 << 20);
        let reader = tokio::spawn(reads(near));
        for (after, bytes) in pieces {
            tokio::time::sleep(Duration::from_secs(after)).await;
            if far.write_all(&bytes).await.is_err() {
                break;
            }
        }
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        drop(far);
        reader.await.expect("read")
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_message_is_overdue_and_pings_put_nothing_off() {
        let half = |frame: Vec<u8>| frame[..frame.len() / 2].to_vec();
        assert_eq!(sent(vec![(5, half(frame(TEXT, 100)))]).await, (35, true));
        assert_eq!(sent(vec![(5, vec![TEXT])]).await, (35, true));
        let pings = (0..20).map(|_| (5, frame(PING, 4)));
        assert_eq!(sent([(0, frame(BEGIN, 10))].into_iter().chain(pings).collect()).await, (30, true));
        // Single bytes are no better, and the end of the previous message is no reason to start later.
        let drops = (0..99).map(|_| (1, vec![0]));
        assert_eq!(sent([(0, half(frame(TEXT, 200)))].into_iter().chain(drops).collect()).await, (30, true));
        let next = [frame(END, 3), half(frame(TEXT, 50))].concat();
        assert_eq!(sent(vec![(0, frame(BEGIN, 3)), (20, next)]).await, (50, true));
    }

    #[tokio::test(start_paused = true)]
    async fn whole_messages_have_all_the_time_between_them() {
        let pieces = vec![(0, frame(TEXT, 3)), (100, frame(PING, 0)), (100, frame(BEGIN, 3)), (29, frame(END, 3))];
        assert_eq!(sent(pieces).await, (3_829, false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_was_not_read_has_its_time_again() {
        let (near, mut far) = duplex(1 << 20);
        let mut near = MessageDeadline::new(near, LIMIT, budget(1).place(MemoryKind::Frame, &BudgetOwner::default()));
        let whole = frame(TEXT, 100);
        far.write_all(&whole[..50]).await.expect("sent");
        let mut buffer = [0; 512];
        assert_eq!(near.read(&mut buffer).await.expect("read"), 50);
        tokio::time::sleep(LIMIT * 2).await;
        near.restart();
        let begun = Instant::now();
        assert!(near.read(&mut buffer).await.is_err());
        assert_eq!(begun.elapsed(), LIMIT);
    }

    /// A budget of so many steps of memory.
    fn budget(steps: usize) -> MemoryBudget {
        MemoryBudget::new(steps * FRAME_STEP_BYTES, 0)
    }

    /// A client that sends a message of this size at this rate, and the time and the way in which its socket ends.
    async fn at_rate(size: usize, per_second: usize) -> (u64, bool) {
        let message = frame(TEXT, size);
        let pieces: Vec<_> = message.chunks(per_second).map(|piece| (1, piece.to_vec())).collect();
        sent(pieces).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_message_has_a_least_rate_and_a_small_one_only_its_deadline() {
        let rate = SOCKET_SLOWEST_MESSAGE;
        // 16 KiB are free: they may take all of the time.
        assert_eq!(at_rate(16 * 1_024, 1_024).await, (3_617, false));
        // A larger one is closed once it is known to be larger and slow.
        assert_eq!(at_rate(300 * 1_024, rate / 4).await, (6, true));
        assert_eq!(at_rate(300 * 1_024, rate / 2).await, (6, true));
        assert_eq!(at_rate(300 * 1_024, rate + 512).await, (3_619, false));
        // However fast it is, it ends.
        assert_eq!(at_rate(1_024 * 1_024, rate + 512).await, (31, true));
        // A message that stops is slow from the moment at which its bytes are no longer enough.
        let fast = frame(TEXT, 300 * 1_024)[..160 * 1_024].to_vec();
        assert_eq!(sent(vec![(0, fast)]).await, (10, true));
    }

    #[tokio::test(start_paused = true)]
    async fn incomplete_messages_take_memory_and_give_it_back() {
        let budget = budget(4);
        let (near, mut far) = duplex(1 << 20);
        let reader = tokio::spawn(reads_with(near, budget.place(MemoryKind::Frame, &BudgetOwner::default())));
        let free = |budget: &MemoryBudget| budget.free() / FRAME_STEP_BYTES;
        let message = frame(BEGIN, 100 * 1_024);
        far.write_all(&message[..16 * 1_024]).await.expect("sent");
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(free(&budget), 4);
        far.write_all(&message[16 * 1_024..]).await.expect("sent");
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(free(&budget), 2);
        // A control frame between the frames of a message releases nothing.
        far.write_all(&frame(PING, 10)).await.expect("sent");
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(free(&budget), 2);
        far.write_all(&frame(END, 1)).await.expect("sent");
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(free(&budget), 4);
        drop(far);
        assert_eq!(reader.await.expect("read"), (0, false));
    }

    #[tokio::test(start_paused = true)]
    async fn without_memory_a_message_is_read_no_further_and_continues_once_there_is_some() {
        let budget = budget(1);
        let mut held = budget.place(MemoryKind::Frame, &BudgetOwner::default());
        held.take(FRAME_STEP_BYTES, Instant::now()).await.expect("free");
        let (near, mut far) = duplex(1_024);
        let mut reader = tokio::spawn(reads_with(near, budget.place(MemoryKind::Frame, &BudgetOwner::default())));
        let message = frame(TEXT, 60 * 1_024);
        // 16 KiB, one read more, and what the connection itself holds.
        let most = 16 * 1_024 + 512 + 1_024;
        let written = write_for(&mut far, &message, LIMIT / 3).await;
        assert!((16 * 1_024..=most).contains(&written), "{written}");
        // A small message of another socket needs none.
        assert_eq!(sent_with(&budget, frame(TEXT, 1_000), Duration::ZERO).await, (0, false));
        drop(held);
        // The rate is measured anew: the message was not slow, it was not read.
        far.write_all(&message[written..]).await.expect("sent");
        drop(far);
        assert_eq!((&mut reader).await.expect("read"), (10, false));
        // Without any memory the message is overdue.
        let mut held = budget.place(MemoryKind::Frame, &BudgetOwner::default());
        held.take(FRAME_STEP_BYTES, Instant::now()).await.expect("free");
        assert_eq!(sent_with(&budget, frame(TEXT, 60 * 1_024), LIMIT * 2).await, (30, true));
    }

    /// Writes as much as the peer takes within a time. Returns the number of bytes.
    async fn write_for(far: &mut DuplexStream, bytes: &[u8], time: Duration) -> usize {
        let (mut written, until) = (0, Instant::now() + time);
        while let Ok(Ok(more)) = tokio::time::timeout_at(until, far.write(&bytes[written..])).await {
            written += more;
        }
        written
    }

    /// Sends these bytes to a socket with this budget, and ends the connection this much later.
    async fn sent_with(budget: &MemoryBudget, bytes: Vec<u8>, later: Duration) -> (u64, bool) {
        let (near, mut far) = duplex(1 << 20);
        let reader = tokio::spawn(reads_with(near, budget.place(MemoryKind::Frame, &BudgetOwner::default())));
        far.write_all(&bytes).await.expect("sent");
        let ends = tokio::spawn(async move {
            tokio::time::sleep(later).await;
            drop(far);
        });
        let read = reader.await.expect("read");
        ends.abort();
        read
    }
}
