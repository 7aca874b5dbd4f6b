//! A connection whose writes must get somewhere: a peer that does not read for too long is cut off.

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

/// Fails a write that makes no progress for `patience`. Idle connections carry no timer.
#[derive(Debug)]
pub struct TimedWrites<T> {
    inner: T,
    patience: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<T> TimedWrites<T> {
    /// Wraps a connection.
    pub fn new(inner: T, patience: Duration) -> Self {
        Self { inner, patience, deadline: None }
    }

    /// What a write came to: progress clears the deadline, waiting sets it and fails when it has passed.
    fn timed<R>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if result.is_ready() {
            self.deadline = None;
            return result;
        }
        let patience = self.patience;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + patience)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TimedWrites<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for TimedWrites<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(context, buf);
        self.timed(context, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_flush(context);
        self.timed(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(context, bufs);
        self.timed(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_that_gets_nowhere_fails_and_one_that_does_not_is_left_alone() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = TimedWrites::new(near, Duration::from_secs(20));
        near.write_all(b"1234").await.expect("fits");
        let before = Instant::now();
        let error = near.write_all(b"5").await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(before.elapsed(), Duration::from_secs(20));
        // Reading again makes room, and the old deadline is forgotten.
        far.read_exact(&mut [0; 4]).await.expect("reads");
        near.write_all(b"5").await.expect("room again");
    }
}
