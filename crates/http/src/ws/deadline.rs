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

use super::frames::Frames;

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

    /// True if a message was not complete within the limit. A read without input notices it by itself, but input may
    /// always be there, and the library may have read it before.
    pub(super) fn is_overdue(&self) -> bool {
        self.message.as_ref().is_some_and(|message| message.begun + self.limit <= Instant::now())
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
            return if self.is_overdue() { Poll::Ready(Err(overdue())) } else { result };
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

#[cfg(test)]
mod tests;
