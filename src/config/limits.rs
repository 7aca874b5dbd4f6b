//! The limits that can be set.

use std::time::Duration;

use clap::{Args, value_parser};

use crate::domain::{
    Limits, Quotas,
    limits::{
        BODY_DEADLINE, BODY_IDLE_TIMEOUT, BODY_MEMORY_BYTES, HEADER_TIMEOUT, MAX_BATCH_BYTES, MAX_CONNECTIONS,
        MAX_QUOTA, MAX_SUBSCRIPTIONS, SOCKET_IDLE_TIMEOUT, SOCKET_MESSAGE_TIMEOUT, SOCKET_SLOWEST_READ,
        USER_APPEND_BYTE_BURST, USER_APPEND_BYTES_PER_SECOND, USER_REQUEST_BURST, USER_REQUESTS_PER_SECOND, USER_RUNS,
        USER_SOCKETS, WRITE_TIMEOUT,
    },
};

/// Under this heading stand what holds for each connection and each node …
pub(super) const NODE: &str = "Limits of a node";
/// … and what users and projects may use.
pub(super) const QUOTAS: &str = "Limits of users and projects (0: no limit)";

macro_rules! limit_args {
    ($($(#[$doc:meta])* $heading:ident $field:ident $long:literal $env:literal $kind:literal $default:expr, $least:literal..=$most:expr;)*) => {
        /// The limits that can be set.
        #[derive(Debug, Clone, Copy, Args)]
        pub struct LimitArgs {
            $(
                $(#[$doc])*
                #[arg(
                    id = $long,
                    long = $long,
                    env = $env,
                    default_value_t = $default,
                    value_parser = value_parser!(u64).range($least..=$most),
                    value_name = $kind,
                    help_heading = $heading,
                    hide_short_help = true
                )]
                pub $field: u64,
            )*
        }
    };
}

limit_args! {
    /// Connections served at once, sockets included; others wait to be accepted
    NODE connections "limit-connections" "THREADLINE_LIMIT_CONNECTIONS" "NUMBER" MAX_CONNECTIONS as u64, 1..=1_000_000;
    /// Time to send the whole head of a request; also how long a connection may be idle between requests
    NODE header_seconds "limit-header-seconds" "THREADLINE_LIMIT_HEADER_SECONDS" "SECONDS" HEADER_TIMEOUT.as_secs(), 1..=3_600;
    /// Longest silence inside a request body
    NODE body_idle_seconds "limit-body-idle-seconds" "THREADLINE_LIMIT_BODY_IDLE_SECONDS" "SECONDS" BODY_IDLE_TIMEOUT.as_secs(), 1..=3_600;
    /// Time for a whole request body (a streamed run has none)
    NODE body_seconds "limit-body-seconds" "THREADLINE_LIMIT_BODY_SECONDS" "SECONDS" BODY_DEADLINE.as_secs(), 1..=86_400;
    /// Bytes of request bodies held at once, at least 16 MiB; when there is no room, bodies are read no further, and after 10 s
    /// answered 503 `busy`. Who comes with a token holds at most an eighth, but 16 MiB at least. The first 16 KiB of each are not counted
    NODE body_memory_bytes "limit-body-memory-bytes" "THREADLINE_LIMIT_BODY_MEMORY_BYTES" "BYTES" BODY_MEMORY_BYTES as u64, 16_777_216..=MAX_QUOTA;
    /// Time that a write to a client may take without getting anywhere
    NODE write_seconds "limit-write-seconds" "THREADLINE_LIMIT_WRITE_SECONDS" "SECONDS" WRITE_TIMEOUT.as_secs(), 1..=3_600;
    /// Bytes a second that a client must read while something is written to it; else its connection is closed, a socket with
    /// 4008
    NODE slowest_read_bytes_per_second "limit-slowest-read-bytes-per-second" "THREADLINE_LIMIT_SLOWEST_READ_BYTES_PER_SECOND" "BYTES" SOCKET_SLOWEST_READ as u64, 1..=MAX_QUOTA;
    /// A socket that sends nothing at all, not even a pong, for this long is closed with 4009; at least 30, since the server
    /// asks every 15 s
    NODE socket_idle_seconds "limit-socket-idle-seconds" "THREADLINE_LIMIT_SOCKET_IDLE_SECONDS" "SECONDS" SOCKET_IDLE_TIMEOUT.as_secs(), 30..=86_400;
    /// Time for a whole message on a socket, from its first byte, whatever is sent in between; else it is closed with 4014
    NODE message_seconds "limit-message-seconds" "THREADLINE_LIMIT_MESSAGE_SECONDS" "SECONDS" SOCKET_MESSAGE_TIMEOUT.as_secs(), 1..=3_600;
    /// Subscriptions on one socket
    QUOTAS subscriptions_per_socket "limit-subscriptions-per-socket" "THREADLINE_LIMIT_SUBSCRIPTIONS_PER_SOCKET" "NUMBER" MAX_SUBSCRIPTIONS as u64, 1..=1_000_000;
    /// Requests a second of each user, frames on sockets included
    QUOTAS user_requests_per_second "limit-user-requests-per-second" "THREADLINE_LIMIT_USER_REQUESTS_PER_SECOND" "NUMBER" USER_REQUESTS_PER_SECOND, 0..=MAX_QUOTA;
    /// Requests of each user at once after a rest; 0: as many as in a second
    QUOTAS user_request_burst "limit-user-request-burst" "THREADLINE_LIMIT_USER_REQUEST_BURST" "NUMBER" USER_REQUEST_BURST, 0..=MAX_QUOTA;
    /// Sockets and event streams that each user may have open
    QUOTAS user_sockets "limit-user-sockets" "THREADLINE_LIMIT_USER_SOCKETS" "NUMBER" USER_SOCKETS, 0..=MAX_QUOTA;
    /// Runs that each user may have under way, counted over all nodes
    QUOTAS user_runs "limit-user-runs" "THREADLINE_LIMIT_USER_RUNS" "NUMBER" USER_RUNS, 0..=MAX_QUOTA;
    /// Bytes a second that each user may append
    QUOTAS user_append_bytes_per_second "limit-user-append-bytes-per-second" "THREADLINE_LIMIT_USER_APPEND_BYTES_PER_SECOND" "BYTES" USER_APPEND_BYTES_PER_SECOND, 0..=MAX_QUOTA;
    /// Bytes that each user may append at once after a rest; 0: as many as in a second
    QUOTAS user_append_byte_burst "limit-user-append-byte-burst" "THREADLINE_LIMIT_USER_APPEND_BYTE_BURST" "BYTES" USER_APPEND_BYTE_BURST, 0..=MAX_QUOTA;
    /// Requests a second of each project, frames on sockets included
    QUOTAS project_requests_per_second "limit-project-requests-per-second" "THREADLINE_LIMIT_PROJECT_REQUESTS_PER_SECOND" "NUMBER" 0, 0..=MAX_QUOTA;
    /// Requests of each project at once after a rest; 0: as many as in a second
    QUOTAS project_request_burst "limit-project-request-burst" "THREADLINE_LIMIT_PROJECT_REQUEST_BURST" "NUMBER" 0, 0..=MAX_QUOTA;
    /// Sockets and event streams that each project may have open
    QUOTAS project_sockets "limit-project-sockets" "THREADLINE_LIMIT_PROJECT_SOCKETS" "NUMBER" 0, 0..=MAX_QUOTA;
    /// Runs that each project may have under way, counted over all nodes
    QUOTAS project_runs "limit-project-runs" "THREADLINE_LIMIT_PROJECT_RUNS" "NUMBER" 0, 0..=MAX_QUOTA;
    /// Bytes a second that each project may append
    QUOTAS project_append_bytes_per_second "limit-project-append-bytes-per-second" "THREADLINE_LIMIT_PROJECT_APPEND_BYTES_PER_SECOND" "BYTES" 0, 0..=MAX_QUOTA;
    /// Bytes that each project may append at once after a rest; 0: as many as in a second
    QUOTAS project_append_byte_burst "limit-project-append-byte-burst" "THREADLINE_LIMIT_PROJECT_APPEND_BYTE_BURST" "BYTES" 0, 0..=MAX_QUOTA;
}

// The least room takes one body of the largest kind.
const _: () = assert!(MAX_BATCH_BYTES == 16_777_216);

impl LimitArgs {
    /// The limits of the node. In development mode those of users hold that were `set` on purpose, by the names of their
    /// flags.
    pub fn limits(&self, set: impl Fn(&str) -> bool) -> Limits {
        let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let on_purpose = |flag: &str, value: u64| if set(flag) { value } else { 0 };
        Limits {
            connections: size(self.connections),
            header: Duration::from_secs(self.header_seconds),
            body_idle: Duration::from_secs(self.body_idle_seconds),
            body: Duration::from_secs(self.body_seconds),
            body_memory: size(self.body_memory_bytes),
            write: Duration::from_secs(self.write_seconds),
            slowest_read: size(self.slowest_read_bytes_per_second),
            socket_idle: Duration::from_secs(self.socket_idle_seconds),
            message: Duration::from_secs(self.message_seconds),
            subscriptions: size(self.subscriptions_per_socket),
            user: Quotas {
                requests_per_second: self.user_requests_per_second,
                request_burst: self.user_request_burst,
                sockets: self.user_sockets,
                runs: self.user_runs,
                append_bytes_per_second: self.user_append_bytes_per_second,
                append_byte_burst: self.user_append_byte_burst,
            },
            development: Quotas {
                requests_per_second: on_purpose("limit-user-requests-per-second", self.user_requests_per_second),
                request_burst: on_purpose("limit-user-request-burst", self.user_request_burst),
                sockets: on_purpose("limit-user-sockets", self.user_sockets),
                runs: on_purpose("limit-user-runs", self.user_runs),
                append_bytes_per_second: on_purpose(
                    "limit-user-append-bytes-per-second",
                    self.user_append_bytes_per_second,
                ),
                append_byte_burst: on_purpose("limit-user-append-byte-burst", self.user_append_byte_burst),
            },
            project: Quotas {
                requests_per_second: self.project_requests_per_second,
                request_burst: self.project_request_burst,
                sockets: self.project_sockets,
                runs: self.project_runs,
                append_bytes_per_second: self.project_append_bytes_per_second,
                append_byte_burst: self.project_append_byte_burst,
            },
        }
    }
}
