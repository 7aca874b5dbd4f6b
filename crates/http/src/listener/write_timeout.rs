//! Connection with a timeout for writes: a peer that reads nothing, or too slowly, is disconnected.

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

/// Fails a write once its connection has waited for its peer for `timeout` longer than the written bytes take at
/// `rate` bytes a second. Only time in which a write waits is counted: idle connections have no timer.
#[derive(Debug)]
pub struct WriteTimeout<T> {
    inner: T,
    timeout: Duration,
    rate: usize,
    /// Time that writes have waited, less the time that the bytes written since are worth.
    debt: Duration,
    waiting: Option<Waiting>,
}

/// Write that waits for its peer.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    deadline: Pin<Box<Sleep>>,
}

impl<T> WriteTimeout<T> {
    /// Wraps a connection. `rate` is in bytes a second.
    pub fn new(inner: T, timeout: Duration, rate: usize) -> Self {
        Self { inner, timeout, rate, debt: Duration::ZERO, waiting: None }
    }

    /// Accounts for the result of a write: a wait sets the deadline, and fails once the deadline has passed; progress
    /// postpones the deadline by the time that the bytes are worth.
    fn timed<R>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<R>>,
        bytes: impl FnOnce(&R) -> usize,
    ) -> Poll<io::Result<R>> {
        if let Poll::Ready(result) = result {
            if let Some(waiting) = self.waiting.take() {
                self.debt += waiting.since.elapsed();
            }
            if !self.debt.is_zero() {
                let bytes = result.as_ref().map_or(0, bytes);
                let worth = Duration::from_secs_f64(bytes as f64 / self.rate.max(1) as f64);
                self.debt = self.debt.saturating_sub(worth);
            }
            return Poll::Ready(result);
        }
        let left = self.timeout.saturating_sub(self.debt);
        let waiting = self.waiting.get_or_insert_with(|| {
            let since = Instant::now();
            Waiting { since, deadline: Box::pin(sleep_until(since + left)) }
        });
        ready!(waiting.deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read, or too slowly")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WriteTimeout<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(context, buf);
        self.timed(context, result, |bytes| *bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_flush(context);
        self.timed(context, result, |()| 0)
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
        self.timed(context, result, |bytes| *bytes)
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
        let mut near = WriteTimeout::new(near, Duration::from_secs(20), 1);
        near.write_all(b"1234").await.expect("fits");
        let before = Instant::now();
        let error = near.write_all(b"5").await.expect_err("no reader");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(before.elapsed(), Duration::from_secs(20));
        // Reading frees the buffer, and a write that does not wait never fails.
        far.read_exact(&mut [0; 4]).await.expect("reads");
        near.write_all(b"5").await.expect("room again");
    }

    /// Writes to a peer that reads this many bytes a second. Returns the duration and the result.
    async fn to_a_reader_of(per_second: usize, bytes: usize) -> (Duration, Result<(), io::ErrorKind>) {
        let (near, mut far) = tokio::io::duplex(100);
        let mut near = WriteTimeout::new(near, Duration::from_secs(20), 100);
        let reader = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                far.read_exact(&mut vec![0; per_second]).await.expect("reads");
            }
        });
        let begun = Instant::now();
        let result = near.write_all(&vec![0; bytes]).await.map_err(|error| error.kind());
        reader.abort();
        (begun.elapsed(), result)
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_too_slowly_is_cut_off_and_one_that_reads_at_the_rate_is_not() {
        // At half the rate, half of the waiting time is compensated.
        let (lasted, result) = to_a_reader_of(50, 100_000).await;
        assert_eq!(result, Err(io::ErrorKind::TimedOut));
        assert!((38..=42).contains(&lasted.as_secs()), "{lasted:?}");
        let (lasted, result) = to_a_reader_of(100, 100_000).await;
        assert_eq!((lasted.as_secs(), result), (999, Ok(())));
    }

    #[tokio::test(start_paused = true)]
    async fn only_time_in_which_a_write_waits_counts() {
        let (near, mut far) = tokio::io::duplex(100);
        let mut near = WriteTimeout::new(near, Duration::from_secs(20), 10);
        for _ in 0..20 {
            // A hundred bytes compensate for ten seconds of waiting, and the idle hour in between costs nothing.
            let (written, ()) = tokio::join!(near.write_all(&[0; 200]), async {
                tokio::time::sleep(Duration::from_secs(10)).await;
                far.read_exact(&mut [0; 200]).await.expect("reads");
            });
            written.expect("in time");
            tokio::time::sleep(Duration::from_secs(3_600)).await;
        }
    }
}
