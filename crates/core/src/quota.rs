//! Limits that an operator can set, and limits that a project can have of its own.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::limits::{
    ADDRESS_CONNECTIONS, BODY_DEADLINE, BODY_IDLE_TIMEOUT, BODY_MEMORY_BYTES, HEADER_TIMEOUT, MAX_CONNECTIONS,
    MAX_SUBSCRIPTIONS, MIN_MEMORY_BYTES, SOCKET_IDLE_TIMEOUT, SOCKET_MESSAGE_TIMEOUT, SOCKET_SLOWEST_READ,
    USER_APPEND_BYTE_BURST, USER_APPEND_BYTES_PER_SECOND, USER_REQUEST_BURST, USER_REQUESTS_PER_SECOND, USER_RUNS,
    USER_SOCKETS, USER_STORED_BYTES, USER_THREADS, USER_WORK_BURST, USER_WORK_PER_SECOND, WRITE_TIMEOUT,
};

/// Limits of a node that an operator can set. The defaults are the constants of [`super::limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections served at once.
    pub connections: usize,
    /// Connections of one address; 0 is no limit.
    pub connections_per_address: usize,
    /// Time in which the complete head of a request must arrive.
    pub header: Duration,
    /// Read timeout inside a request body.
    pub body_idle: Duration,
    /// Time in which a complete request body must arrive.
    pub body: Duration,
    /// Bytes that bodies, messages, responses and folds together hold in memory at once.
    pub memory: usize,
    /// Bytes of request bodies among them.
    pub body_memory: usize,
    /// Time that one write to a client may take.
    pub write: Duration,
    /// Bytes a second that a client must read while data is written to it.
    pub slowest_read: usize,
    /// Read timeout of a socket: one that sends nothing at all for this long is closed.
    pub socket_idle: Duration,
    /// Time in which a complete message of a socket must arrive.
    pub message: Duration,
    /// Subscriptions allowed on one socket.
    pub subscriptions: usize,
    /// Quotas of each end user who authenticates with a token.
    pub user: Quotas,
    /// Quotas of each user in development mode, which requires no credential: only quotas that were set on purpose
    /// hold.
    pub development: Quotas,
    /// Quotas of each project, all its users and keys together.
    pub project: Quotas,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: MAX_CONNECTIONS,
            connections_per_address: ADDRESS_CONNECTIONS,
            header: HEADER_TIMEOUT,
            body_idle: BODY_IDLE_TIMEOUT,
            body: BODY_DEADLINE,
            memory: MIN_MEMORY_BYTES,
            body_memory: BODY_MEMORY_BYTES,
            write: WRITE_TIMEOUT,
            slowest_read: SOCKET_SLOWEST_READ,
            socket_idle: SOCKET_IDLE_TIMEOUT,
            message: SOCKET_MESSAGE_TIMEOUT,
            subscriptions: MAX_SUBSCRIPTIONS,
            user: Quotas::STRANGER,
            development: Quotas::NONE,
            project: Quotas::NONE,
        }
    }
}

/// Quotas of one user or one project. 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quotas {
    /// Requests a second, the frames of sockets included.
    pub requests_per_second: u64,
    /// Requests accepted at once after a pause.
    pub request_burst: u64,
    /// Sockets and event streams open at the same time.
    pub sockets: u64,
    /// Runs active at the same time.
    pub runs: u64,
    /// Bytes of events appended a second.
    pub append_bytes_per_second: u64,
    /// Bytes of events appended at once after a pause.
    pub append_byte_burst: u64,
    /// Units of work a second.
    pub work_per_second: u64,
    /// Units of work accepted at once after a pause.
    pub work_burst: u64,
    /// Bytes of events stored.
    pub stored_bytes: u64,
    /// Threads stored, those in the trash included.
    pub threads: u64,
}

impl Quotas {
    /// Quotas without any limit.
    pub const NONE: Self = Self {
        requests_per_second: 0,
        request_burst: 0,
        sockets: 0,
        runs: 0,
        append_bytes_per_second: 0,
        append_byte_burst: 0,
        work_per_second: 0,
        work_burst: 0,
        stored_bytes: 0,
        threads: 0,
    };
    /// Default quotas of an untrusted client.
    pub const STRANGER: Self = Self {
        requests_per_second: USER_REQUESTS_PER_SECOND,
        request_burst: USER_REQUEST_BURST,
        sockets: USER_SOCKETS,
        runs: USER_RUNS,
        append_bytes_per_second: USER_APPEND_BYTES_PER_SECOND,
        append_byte_burst: USER_APPEND_BYTE_BURST,
        work_per_second: USER_WORK_PER_SECOND,
        work_burst: USER_WORK_BURST,
        stored_bytes: USER_STORED_BYTES,
        threads: USER_THREADS,
    };
}

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident $project:ident $wire:literal $quotas:ident.$field:ident;)*) => {
        /// Quota, by the name that it has in project settings and in refusals.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Limit {
            $($(#[$doc])* $name,)*
            /// Subscriptions allowed on one socket.
            Subscriptions,
            /// Bytes of request bodies that a node holds at once.
            BodyMemory,
            /// Bytes that messages of sockets, large answers and folds of a node hold at once.
            Memory,
            /// Folds, scans and searches of one user that wait.
            UserWork,
            /// Folds, scans and searches of one project that wait.
            ProjectWork,
            /// Seconds for which a fold, scan or search waits for its next slice.
            WorkWaitSeconds,
            /// Free bytes of the file system with the data.
            StorageFree,
        }

        impl Limit {
            /// Every limit, each of them once.
            pub const ALL: &'static [Self] = &[
                $(Self::$name,)*
                Self::Subscriptions,
                Self::BodyMemory,
                Self::Memory,
                Self::UserWork,
                Self::ProjectWork,
                Self::WorkWaitSeconds,
                Self::StorageFree,
            ];

            /// Name of the limit in project settings and in refusals.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $wire,)*
                    Self::Subscriptions => "subscriptionsPerSocket",
                    Self::BodyMemory => "bodyMemoryBytes",
                    Self::Memory => "memoryBytes",
                    Self::UserWork => "userWork",
                    Self::ProjectWork => "projectWork",
                    Self::WorkWaitSeconds => "workWaitSeconds",
                    Self::StorageFree => "storageFreeBytes",
                }
            }
        }

        /// Limits that a project has instead of those of the configuration. An absent limit is as configured; 0 is no
        /// limit.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub struct ProjectLimits {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $project: Option<u64>,)*
            /// Subscriptions allowed on one socket; here 0 allows none.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub subscriptions_per_socket: Option<u64>,
        }

        impl ProjectLimits {
            /// Limits of a node, with the limits that the project sets in their place.
            pub fn over(&self, mut limits: Limits) -> Limits {
                $(limits.$quotas.$field = self.$project.unwrap_or(limits.$quotas.$field);)*
                limits.development = self.over_development(limits.development);
                if let Some(subscriptions) = self.subscriptions_per_socket {
                    limits.subscriptions = usize::try_from(subscriptions).unwrap_or(usize::MAX);
                }
                limits
            }
        }
    };
}

limits! {
    /// Requests a second of one user, frames of sockets included.
    UserRequests user_requests_per_second "userRequestsPerSecond" user.requests_per_second;
    /// Requests of one user accepted at once after a pause.
    UserRequestBurst user_request_burst "userRequestBurst" user.request_burst;
    /// Sockets and event streams of one user, open at the same time.
    UserSockets user_sockets "userSockets" user.sockets;
    /// Runs of one user, active at the same time.
    UserRuns user_runs "userRuns" user.runs;
    /// Bytes of events that one user appends a second.
    UserAppendBytes user_append_bytes_per_second "userAppendBytesPerSecond" user.append_bytes_per_second;
    /// Bytes of events that one user appends at once after a pause.
    UserAppendByteBurst user_append_byte_burst "userAppendByteBurst" user.append_byte_burst;
    /// Units of work a second of one user: a request is one, and so are 64 KiB that it folds, scans or reads.
    UserWorkRate user_work_per_second "userWorkPerSecond" user.work_per_second;
    /// Units of work of one user accepted at once after a pause.
    UserWorkBurst user_work_burst "userWorkBurst" user.work_burst;
    /// Bytes of events that one user may have stored.
    UserStoredBytes user_stored_bytes "userStoredBytes" user.stored_bytes;
    /// Threads that one user may have stored, those in the trash included.
    UserThreads user_threads "userThreads" user.threads;
    /// Requests a second of one project, frames of sockets included.
    ProjectRequests project_requests_per_second "projectRequestsPerSecond" project.requests_per_second;
    /// Requests of one project accepted at once after a pause.
    ProjectRequestBurst project_request_burst "projectRequestBurst" project.request_burst;
    /// Sockets and event streams of one project, open at the same time.
    ProjectSockets project_sockets "projectSockets" project.sockets;
    /// Runs of one project, active at the same time.
    ProjectRuns project_runs "projectRuns" project.runs;
    /// Bytes of events that one project appends a second.
    ProjectAppendBytes project_append_bytes_per_second "projectAppendBytesPerSecond" project.append_bytes_per_second;
    /// Bytes of events that one project appends at once after a pause.
    ProjectAppendByteBurst project_append_byte_burst "projectAppendByteBurst" project.append_byte_burst;
    /// Units of work a second of one project: a request is one, and so are 64 KiB that it folds, scans or reads.
    ProjectWorkRate project_work_per_second "projectWorkPerSecond" project.work_per_second;
    /// Units of work of one project accepted at once after a pause.
    ProjectWorkBurst project_work_burst "projectWorkBurst" project.work_burst;
    /// Bytes of events that one project may have stored.
    ProjectStoredBytes project_stored_bytes "projectStoredBytes" project.stored_bytes;
    /// Threads that one project may have stored, those in the trash included.
    ProjectThreads project_threads "projectThreads" project.threads;
}

impl ProjectLimits {
    /// Quotas of development mode: limits that the project sets on purpose hold there as well.
    fn over_development(&self, quotas: Quotas) -> Quotas {
        Quotas {
            requests_per_second: self.user_requests_per_second.unwrap_or(quotas.requests_per_second),
            request_burst: self.user_request_burst.unwrap_or(quotas.request_burst),
            sockets: self.user_sockets.unwrap_or(quotas.sockets),
            runs: self.user_runs.unwrap_or(quotas.runs),
            append_bytes_per_second: self.user_append_bytes_per_second.unwrap_or(quotas.append_bytes_per_second),
            append_byte_burst: self.user_append_byte_burst.unwrap_or(quotas.append_byte_burst),
            work_per_second: self.user_work_per_second.unwrap_or(quotas.work_per_second),
            work_burst: self.user_work_burst.unwrap_or(quotas.work_burst),
            stored_bytes: self.user_stored_bytes.unwrap_or(quotas.stored_bytes),
            threads: self.user_threads.unwrap_or(quotas.threads),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_its_own_limits_where_it_names_them() {
        let own: ProjectLimits =
            serde_json::from_str(r#"{"userRuns":3,"projectSockets":0,"subscriptionsPerSocket":2}"#).expect("limits");
        let limits = own.over(Limits { project: Quotas { sockets: 9, runs: 8, ..Quotas::NONE }, ..Limits::default() });
        assert_eq!((limits.user.runs, limits.project.sockets, limits.project.runs), (3, 0, 8));
        assert_eq!((limits.user.sockets, limits.subscriptions), (USER_SOCKETS, 2));
        assert_eq!(limits.development, Quotas { runs: 3, ..Quotas::NONE });
        let written = serde_json::to_string(&ProjectLimits { user_runs: Some(3), ..Default::default() });
        assert_eq!(written.expect("JSON"), r#"{"userRuns":3}"#);
        assert!(serde_json::from_str::<ProjectLimits>(r#"{"userRun":3}"#).is_err());
        assert!(serde_json::from_str::<ProjectLimits>(r#"{"userRuns":-1}"#).is_err());
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::HashSet<_> = Limit::ALL.iter().map(|limit| limit.as_str()).collect();
        assert_eq!(names.len(), Limit::ALL.len());
        for limit in Limit::ALL {
            // Memory, the queue of work and the free storage are limits of the node, so they are no project settings.
            let of_a_project = !matches!(
                limit,
                Limit::BodyMemory
                    | Limit::Memory
                    | Limit::UserWork
                    | Limit::ProjectWork
                    | Limit::WorkWaitSeconds
                    | Limit::StorageFree
            );
            let setting = format!("{{\"{limit}\":1}}");
            assert_eq!(serde_json::from_str::<ProjectLimits>(&setting).is_ok(), of_a_project, "{limit}");
        }
    }
}
