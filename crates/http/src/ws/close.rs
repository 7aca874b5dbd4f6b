//! Close codes of the socket. 4000–4499: the client may reconnect from its cursor. 4500–4999: the client must not
//! reconnect without a change. Codes below 4000 are those of RFC 6455, for violations of its rules and not of
//! Threadline's.

use std::time::Duration;

use threadline_core::limits::DRAIN_RETRY_AFTER;
use tokio_tungstenite::tungstenite::Error;

use crate::ws::is_overdue;

/// Bytes of a reason, at most: a control frame has 125 (RFC 6455, section 5.5), of which the code takes two.
const CLOSE_REASON_BYTES: usize = 123;

/// Reason why the server closes a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseCode {
    /// The server is shutting down.
    Draining,
    /// The server could not continue, for example because the store is unavailable.
    ServerError,
    /// The client did not read for too long.
    SlowConsumer,
    /// The client sent nothing, not even a pong, for too long.
    Idle,
    /// A message of the client was not complete before the timeout.
    MessageTimeout,
    /// The key or token that the socket was opened with is no longer valid.
    CredentialOver,
    /// The client violated the WebSocket protocol.
    ProtocolError,
    /// A text was not UTF-8.
    NotUtf8,
    /// A frame was not JSON, or not text.
    BadFrame,
    /// A frame was too large.
    TooLarge,
    /// The page's origin is not allowed.
    ForbiddenOrigin,
    /// The server supports none of the requested subprotocols.
    UnsupportedVersion,
}

impl CloseCode {
    pub const ALL: [Self; 12] = [
        Self::Draining,
        Self::ServerError,
        Self::SlowConsumer,
        Self::Idle,
        Self::MessageTimeout,
        Self::CredentialOver,
        Self::ProtocolError,
        Self::NotUtf8,
        Self::BadFrame,
        Self::TooLarge,
        Self::ForbiddenOrigin,
        Self::UnsupportedVersion,
    ];

    /// The code on the wire.
    pub fn code(self) -> u16 {
        match self {
            Self::Draining => 4000,
            Self::ServerError => 4001,
            Self::SlowConsumer => 4008,
            Self::Idle => 4009,
            Self::MessageTimeout => 4014,
            Self::ProtocolError => 1002,
            Self::NotUtf8 => 1007,
            Self::BadFrame => 4500,
            Self::CredentialOver => 4501,
            Self::ForbiddenOrigin => 4503,
            Self::TooLarge => 4509,
            Self::UnsupportedVersion => 4510,
        }
    }

    /// The reason on the wire.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::ServerError => "server-error",
            Self::SlowConsumer => "slow-consumer",
            Self::Idle => "idle",
            Self::MessageTimeout => "message-timeout",
            Self::ProtocolError => "protocol-error",
            Self::NotUtf8 => "not-utf-8",
            Self::BadFrame => "bad-frame",
            Self::CredentialOver => "credential-over",
            Self::ForbiddenOrigin => "forbidden-origin",
            Self::TooLarge => "too-large",
            Self::UnsupportedVersion => "unsupported-version",
        }
    }

    /// Delay before the client may reconnect; `None` if a reconnect without a change would fail again.
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Draining => Some(DRAIN_RETRY_AFTER),
            Self::ServerError => Some(Duration::from_secs(1)),
            Self::SlowConsumer | Self::Idle | Self::MessageTimeout => Some(Duration::ZERO),
            Self::CredentialOver
            | Self::ProtocolError
            | Self::NotUtf8
            | Self::BadFrame
            | Self::TooLarge
            | Self::ForbiddenOrigin
            | Self::UnsupportedVersion => None,
        }
    }

    /// The reason with a detail, as far as a close frame has room for it.
    pub fn reason_with(self, detail: &str) -> String {
        let mut reason = format!("{}: {detail}", self.reason());
        reason.truncate(reason.floor_char_boundary(CLOSE_REASON_BYTES));
        reason
    }
}

/// Close code for a client that cannot be read any more; `None` if the client has just disconnected.
pub fn read_error(error: &Error) -> Option<CloseCode> {
    match error {
        Error::Capacity(_) => Some(CloseCode::TooLarge),
        Error::Utf8(_) => Some(CloseCode::NotUtf8),
        Error::Protocol(_) => Some(CloseCode::ProtocolError),
        error if is_overdue(error) => Some(CloseCode::MessageTimeout),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_a_code_says_whether_to_come_again() {
        let mut codes: Vec<_> = CloseCode::ALL.iter().map(|code| code.code()).collect();
        for code in CloseCode::ALL {
            assert_eq!((4000..4500).contains(&code.code()), code.retry_after().is_some(), "{code:?}");
        }
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), CloseCode::ALL.len());
    }

    #[test]
    fn a_reason_with_a_detail_fits_into_a_close_frame() {
        let code = CloseCode::ForbiddenOrigin;
        assert_eq!(code.reason_with("a"), "forbidden-origin: a");
        let cut = code.reason_with(&"\u{e9}".repeat(200));
        assert!(
            cut.starts_with("forbidden-origin: \u{e9}") && (122..=CLOSE_REASON_BYTES).contains(&cut.len()),
            "{cut}"
        );
    }
}
