//! Graceful close of connections: closing a socket that holds unread bytes resets it, and a reset can destroy an answer
//! that the client has not read yet. The connection is therefore shut down for writing, and further input is discarded.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    runtime::Handle,
    time,
};

use threadline_engine::limits::ConnectionPlace;

/// Longest time for which input is discarded after the last byte was sent.
const LINGER: Duration = Duration::from_secs(5);

/// Byte stream that can outlive the code that used it.
pub trait Connection: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Connection for S {}

/// Connection that lingers after its drop, unless its peer has closed it before, or it was cut.
#[derive(Debug)]
pub struct LingeringClose<S: Connection> {
    stream: Option<S>,
    /// Place of the connection, held until its very end, including the time as a socket.
    place: Option<ConnectionPlace>,
    ended: bool,
}

impl<S: Connection> LingeringClose<S> {
    /// Wraps a connection, with its place.
    pub fn new(stream: S, place: Option<ConnectionPlace>) -> Self {
        Self { stream: Some(stream), place, ended: false }
    }

    fn stream(&mut self) -> io::Result<Pin<&mut S>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<S: Connection> Drop for LingeringClose<S> {
    fn drop(&mut self) {
        let is_cut = self.place.as_ref().is_some_and(ConnectionPlace::is_cut);
        if let Some(stream) = self.stream.take().filter(|_| !self.ended && !is_cut)
            && let Ok(runtime) = Handle::try_current()
        {
            let place = self.place.take();
            runtime.spawn(async move {
                // After this time the connection is reset.
                let _ = time::timeout(LINGER, pass_over(stream)).await;
                drop(place);
            });
        }
    }
}

async fn pass_over(mut stream: impl Connection) -> io::Result<()> {
    stream.shutdown().await?;
    let mut unwanted = [0; 4_096];
    while stream.read(&mut unwanted).await? > 0 {}
    Ok(())
}

impl<S: Connection> AsyncRead for LingeringClose<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = ready!(self.stream()?.poll_read(context, buf));
        self.ended = result.is_err() || (buf.filled().len() == before && buf.remaining() > 0);
        Poll::Ready(result)
    }
}

impl<S: Connection> AsyncWrite for LingeringClose<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(context, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }
}
