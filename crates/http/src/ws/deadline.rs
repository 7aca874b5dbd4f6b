//! A deadline for each message of a socket. The WebSocket library returns complete messages, and holds incomplete ones
//! without a limit of time or a notice. So this module inspects incoming bytes on their way to the library.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};
use tokio_tungstenite::tungstenite::Error;

/// Longest header of a frame, in bytes: two, a length of eight, a mask of four.
const MAX_HEADER: usize = 14;

/// Fails a read once a message that has begun was not complete within `limit`. Idle connections have no timer, and
/// control frames between the frames of a message do not extend the deadline.
#[derive(Debug)]
pub(super) struct MessageDeadline<T> {
    inner: T,
    limit: Duration,
    frames: Frames,
    /// Deadline of the incomplete message.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<T> MessageDeadline<T> {
    pub(super) fn new(inner: T, limit: Duration) -> Self {
        Self { inner, limit, frames: Frames::default(), deadline: None }
    }

    pub(super) fn restart(&mut self) {
        if let Some(deadline) = &mut self.deadline {
            deadline.as_mut().reset(Instant::now() + self.limit);
        }
    }

    fn observe(&mut self, bytes: &[u8]) {
        if self.frames.observe(bytes) {
            self.deadline = None;
        }
        if !self.frames.is_at_rest() && self.deadline.is_none() {
            self.deadline = Some(Box::pin(sleep_until(Instant::now() + self.limit)));
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for MessageDeadline<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(context, buf);
        if result.is_ready() {
            self.observe(&buf.filled()[before..]);
            return result;
        }
        let Some(deadline) = &mut self.deadline else { return Poll::Pending };
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, Overdue)))
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
                rested |= self.is_at_rest();
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
        let begun = Instant::now();
        let mut near = MessageDeadline::new(near, LIMIT);
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
        let mut near = MessageDeadline::new(near, LIMIT);
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
}
