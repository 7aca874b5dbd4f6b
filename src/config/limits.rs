//! Limits that can be configured.

use std::time::Duration;

use clap::{Args, value_parser};
use threadline_core::{
    Limits, Quotas,
    limits::{
        ADDRESS_CONNECTIONS, BODY_DEADLINE, BODY_IDLE_TIMEOUT, BODY_MEMORY_BYTES, HEADER_TIMEOUT, MAX_BATCH_BYTES,
        MAX_CONNECTIONS, MAX_MEMORY_BYTES, MAX_QUOTA, MAX_SUBSCRIPTIONS, MEMORY_PART, MIN_MEMORY_BYTES,
        SOCKET_IDLE_TIMEOUT, SOCKET_MESSAGE_TIMEOUT, SOCKET_SLOWEST_READ, USER_APPEND_BYTE_BURST,
        USER_APPEND_BYTES_PER_SECOND, USER_REQUEST_BURST, USER_REQUESTS_PER_SECOND, USER_RUNS, USER_SOCKETS,
        USER_STORED_BYTES, USER_THREADS, USER_WORK_BURST, USER_WORK_PER_SECOND, WRITE_TIMEOUT,
    },
};

use super::machine;

/// Heading in the help for limits of each connection and each node.
pub(super) const NODE: &str = "Limits of a node";
/// Heading in the help for limits of users and projects.
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
    /// Maximum number of open connections, sockets included; others get 503
    NODE connections "limit-connections" "THREADLINE_LIMIT_CONNECTIONS" "NUMBER" MAX_CONNECTIONS as u64, 1..=1_000_000;
    /// Maximum number of open connections of one address, for IPv6 of one /64; others get 503. Addresses of this machine and of
    /// `--trusted-proxies` are exempt. 0: no limit
    NODE connections_per_address "limit-connections-per-address" "THREADLINE_LIMIT_CONNECTIONS_PER_ADDRESS" "NUMBER" ADDRESS_CONNECTIONS as u64, 0..=1_000_000;
    /// Timeout for the head of a request, and for an idle connection between requests
    NODE header_seconds "limit-header-seconds" "THREADLINE_LIMIT_HEADER_SECONDS" "SECONDS" HEADER_TIMEOUT.as_secs(), 1..=3_600;
    /// Timeout between two reads of a request body
    NODE body_idle_seconds "limit-body-idle-seconds" "THREADLINE_LIMIT_BODY_IDLE_SECONDS" "SECONDS" BODY_IDLE_TIMEOUT.as_secs(), 1..=3_600;
    /// Timeout for a complete request body (not for a streamed run)
    NODE body_seconds "limit-body-seconds" "THREADLINE_LIMIT_BODY_SECONDS" "SECONDS" BODY_DEADLINE.as_secs(), 1..=86_400;
    /// Memory for request bodies, incomplete messages of sockets, large responses and conversations that are being read; 0: a
    /// quarter of the memory of the container or the machine, between 256 MiB and 4 GiB; less than 64 MiB counts as 64 MiB.
    /// A project may hold four times the memory that is free, a user with a token as much as is free. Beyond its share, a
    /// client waits, and after 10 s gets 503 `busy`. The first 64 KiB of each client are not counted
    NODE memory_bytes "limit-memory-bytes" "THREADLINE_LIMIT_MEMORY_BYTES" "BYTES" 0, 0..=MAX_QUOTA;
    /// Part of the memory that request bodies may use, at least 32 MiB, shared by the same rule. The first 16 KiB of each body
    /// are not counted
    NODE body_memory_bytes "limit-body-memory-bytes" "THREADLINE_LIMIT_BODY_MEMORY_BYTES" "BYTES" BODY_MEMORY_BYTES as u64, 33_554_432..=MAX_QUOTA;
    /// Timeout for a write to a client that makes no progress
    NODE write_seconds "limit-write-seconds" "THREADLINE_LIMIT_WRITE_SECONDS" "SECONDS" WRITE_TIMEOUT.as_secs(), 1..=3_600;
    /// Minimum bytes per second that a client must read during a write; else its connection is closed, a socket with 4008
    NODE slowest_read_bytes_per_second "limit-slowest-read-bytes-per-second" "THREADLINE_LIMIT_SLOWEST_READ_BYTES_PER_SECOND" "BYTES" SOCKET_SLOWEST_READ as u64, 1..=MAX_QUOTA;
    /// Timeout after which a socket that sends nothing, not even a pong, is closed with 4009; at least 30, since the server
    /// pings every 15 s
    NODE socket_idle_seconds "limit-socket-idle-seconds" "THREADLINE_LIMIT_SOCKET_IDLE_SECONDS" "SECONDS" SOCKET_IDLE_TIMEOUT.as_secs(), 30..=86_400;
    /// Timeout for a complete message on a socket, from its first byte. Beyond it, the socket is closed with 4014; so is one
    /// with a message of more than 16 KiB that arrives more slowly than 16 KiB per second after 5 s
    NODE message_seconds "limit-message-seconds" "THREADLINE_LIMIT_MESSAGE_SECONDS" "SECONDS" SOCKET_MESSAGE_TIMEOUT.as_secs(), 1..=3_600;
    /// Maximum number of subscriptions per socket
    QUOTAS subscriptions_per_socket "limit-subscriptions-per-socket" "THREADLINE_LIMIT_SUBSCRIPTIONS_PER_SOCKET" "NUMBER" MAX_SUBSCRIPTIONS as u64, 1..=1_000_000;
    /// Requests per second of each user, frames on sockets included
    QUOTAS user_requests_per_second "limit-user-requests-per-second" "THREADLINE_LIMIT_USER_REQUESTS_PER_SECOND" "NUMBER" USER_REQUESTS_PER_SECOND, 0..=MAX_QUOTA;
    /// Burst of requests of each user; 0: as many as per second
    QUOTAS user_request_burst "limit-user-request-burst" "THREADLINE_LIMIT_USER_REQUEST_BURST" "NUMBER" USER_REQUEST_BURST, 0..=MAX_QUOTA;
    /// Maximum number of open sockets and event streams of each user
    QUOTAS user_sockets "limit-user-sockets" "THREADLINE_LIMIT_USER_SOCKETS" "NUMBER" USER_SOCKETS, 0..=MAX_QUOTA;
    /// Maximum number of active runs of each user, counted over all nodes
    QUOTAS user_runs "limit-user-runs" "THREADLINE_LIMIT_USER_RUNS" "NUMBER" USER_RUNS, 0..=MAX_QUOTA;
    /// Bytes per second that each user sends: bodies of requests, refused ones included, and appended events of sockets
    QUOTAS user_append_bytes_per_second "limit-user-append-bytes-per-second" "THREADLINE_LIMIT_USER_APPEND_BYTES_PER_SECOND" "BYTES" USER_APPEND_BYTES_PER_SECOND, 0..=MAX_QUOTA;
    /// Burst of these bytes of each user; 0: as many as per second
    QUOTAS user_append_byte_burst "limit-user-append-byte-burst" "THREADLINE_LIMIT_USER_APPEND_BYTE_BURST" "BYTES" USER_APPEND_BYTE_BURST, 0..=MAX_QUOTA;
    /// Units of work per second of each user. A request is one, and so are 64 KiB of events that it folds, scans, reads or
    /// replays, and 200 rows that it searches. Work is charged afterwards; a debt delays the next request, for at most 60 s
    QUOTAS user_work_per_second "limit-user-work-per-second" "THREADLINE_LIMIT_USER_WORK_PER_SECOND" "NUMBER" USER_WORK_PER_SECOND, 0..=MAX_QUOTA;
    /// Burst of units of work of each user; 0: as many as per second
    QUOTAS user_work_burst "limit-user-work-burst" "THREADLINE_LIMIT_USER_WORK_BURST" "NUMBER" USER_WORK_BURST, 0..=MAX_QUOTA;
    /// Maximum number of bytes of events that each user has stored, counted over all nodes; then 507 `storage-full`. Ending a run
    /// and deleting threads remain possible
    QUOTAS user_stored_bytes "limit-user-stored-bytes" "THREADLINE_LIMIT_USER_STORED_BYTES" "BYTES" USER_STORED_BYTES, 0..=MAX_QUOTA;
    /// Maximum number of threads of each user, those in the trash included; then 507 `storage-full`
    QUOTAS user_threads "limit-user-threads" "THREADLINE_LIMIT_USER_THREADS" "NUMBER" USER_THREADS, 0..=MAX_QUOTA;
    /// Requests per second of each project, frames on sockets included
    QUOTAS project_requests_per_second "limit-project-requests-per-second" "THREADLINE_LIMIT_PROJECT_REQUESTS_PER_SECOND" "NUMBER" 0, 0..=MAX_QUOTA;
    /// Burst of requests of each project; 0: as many as per second
    QUOTAS project_request_burst "limit-project-request-burst" "THREADLINE_LIMIT_PROJECT_REQUEST_BURST" "NUMBER" 0, 0..=MAX_QUOTA;
    /// Maximum number of open sockets and event streams of each project
    QUOTAS project_sockets "limit-project-sockets" "THREADLINE_LIMIT_PROJECT_SOCKETS" "NUMBER" 0, 0..=MAX_QUOTA;
    /// Maximum number of active runs of each project, counted over all nodes
    QUOTAS project_runs "limit-project-runs" "THREADLINE_LIMIT_PROJECT_RUNS" "NUMBER" 0, 0..=MAX_QUOTA;
    /// Bytes per second that the users and keys of each project send
    QUOTAS project_append_bytes_per_second "limit-project-append-bytes-per-second" "THREADLINE_LIMIT_PROJECT_APPEND_BYTES_PER_SECOND" "BYTES" 0, 0..=MAX_QUOTA;
    /// Burst of these bytes of each project; 0: as many as per second
    QUOTAS project_append_byte_burst "limit-project-append-byte-burst" "THREADLINE_LIMIT_PROJECT_APPEND_BYTE_BURST" "BYTES" 0, 0..=MAX_QUOTA;
    /// Units of work per second of each project, keys included
    QUOTAS project_work_per_second "limit-project-work-per-second" "THREADLINE_LIMIT_PROJECT_WORK_PER_SECOND" "NUMBER" 0, 0..=MAX_QUOTA;
    /// Burst of units of work of each project; 0: as many as per second
    QUOTAS project_work_burst "limit-project-work-burst" "THREADLINE_LIMIT_PROJECT_WORK_BURST" "NUMBER" 0, 0..=MAX_QUOTA;
    /// Maximum number of bytes of events that each project has stored, keys included; then 507 `storage-full`
    QUOTAS project_stored_bytes "limit-project-stored-bytes" "THREADLINE_LIMIT_PROJECT_STORED_BYTES" "BYTES" 0, 0..=MAX_QUOTA;
    /// Maximum number of threads of each project, those in the trash included; then 507 `storage-full`
    QUOTAS project_threads "limit-project-threads" "THREADLINE_LIMIT_PROJECT_THREADS" "NUMBER" 0, 0..=MAX_QUOTA;
}

// Half of the least body memory, an untrusted client's share, holds one body of the largest kind.
const _: () = assert!(2 * MAX_BATCH_BYTES == 33_554_432);

/// Least memory that can be set.
const LEAST_MEMORY: usize = 4 * MAX_BATCH_BYTES;

/// A part of the memory that this process may have.
fn default_memory() -> usize {
    let bytes = machine::memory().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
    (bytes / MEMORY_PART).clamp(MIN_MEMORY_BYTES, MAX_MEMORY_BYTES)
}

impl LimitArgs {
    /// Limits of the node. In development mode, of the limits of users only those hold that were `set` explicitly;
    /// `set` receives names of flags.
    pub fn limits(&self, set: impl Fn(&str) -> bool) -> Limits {
        let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let on_purpose = |flag: &str, value: u64| if set(flag) { value } else { 0 };
        Limits {
            connections: size(self.connections),
            connections_per_address: size(self.connections_per_address),
            header: Duration::from_secs(self.header_seconds),
            body_idle: Duration::from_secs(self.body_idle_seconds),
            body: Duration::from_secs(self.body_seconds),
            memory: match size(self.memory_bytes) {
                0 => default_memory(),
                bytes => bytes.max(LEAST_MEMORY),
            },
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
                work_per_second: self.user_work_per_second,
                work_burst: self.user_work_burst,
                stored_bytes: self.user_stored_bytes,
                threads: self.user_threads,
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
                work_per_second: on_purpose("limit-user-work-per-second", self.user_work_per_second),
                work_burst: on_purpose("limit-user-work-burst", self.user_work_burst),
                stored_bytes: on_purpose("limit-user-stored-bytes", self.user_stored_bytes),
                threads: on_purpose("limit-user-threads", self.user_threads),
            },
            project: Quotas {
                requests_per_second: self.project_requests_per_second,
                request_burst: self.project_request_burst,
                sockets: self.project_sockets,
                runs: self.project_runs,
                append_bytes_per_second: self.project_append_bytes_per_second,
                append_byte_burst: self.project_append_byte_burst,
                work_per_second: self.project_work_per_second,
                work_burst: self.project_work_burst,
                stored_bytes: self.project_stored_bytes,
                threads: self.project_threads,
            },
        }
    }
}
