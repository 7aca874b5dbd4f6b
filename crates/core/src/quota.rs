//! The limits that an operator can set, and those that a project can have of its own.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::limits::{
    BODY_DEADLINE, BODY_IDLE_TIMEOUT, BODY_MEMORY_BYTES, HEADER_TIMEOUT, MAX_CONNECTIONS, MAX_SUBSCRIPTIONS,
    SOCKET_IDLE_TIMEOUT, SOCKET_MESSAGE_TIMEOUT, SOCKET_SLOWEST_READ, USER_APPEND_BYTE_BURST,
    USER_APPEND_BYTES_PER_SECOND, USER_REQUEST_BURST, USER_REQUESTS_PER_SECOND, USER_RUNS, USER_SOCKETS, WRITE_TIMEOUT,
};

/// The limits of a node that an operator can set. The defaults are the constants of [`super::limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections served at once.
    pub connections: usize,
    /// Time to send the whole head of a request.
    pub header: Duration,
    /// Longest silence inside a request body.
    pub body_idle: Duration,
    /// Time for a whole request body.
    pub body: Duration,
    /// Bytes of request bodies held at once.
    pub body_memory: usize,
    /// Time that one write to a client may take.
    pub write: Duration,
    /// Bytes a second that a client must read while something is written to it.
    pub slowest_read: usize,
    /// A socket that sends nothing at all for this long is closed.
    pub socket_idle: Duration,
    /// Time for a whole message of a socket.
    pub message: Duration,
    /// Subscriptions on one socket.
    pub subscriptions: usize,
    /// What each end user may use, who comes with a token.
    pub user: Quotas,
    /// What each user may use in development mode, where nobody has to show anything: only what was set on purpose.
    pub development: Quotas,
    /// What each project may use, all its users and keys together.
    pub project: Quotas,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: MAX_CONNECTIONS,
            header: HEADER_TIMEOUT,
            body_idle: BODY_IDLE_TIMEOUT,
            body: BODY_DEADLINE,
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

/// What one user or one project may use. 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quotas {
    /// Requests a second, the frames of sockets included.
    pub requests_per_second: u64,
    /// Requests at once after a rest.
    pub request_burst: u64,
    /// Sockets and event streams open.
    pub sockets: u64,
    /// Runs under way.
    pub runs: u64,
    /// Bytes appended a second.
    pub append_bytes_per_second: u64,
    /// Bytes appended at once after a rest.
    pub append_byte_burst: u64,
}

impl Quotas {
    /// No limit.
    pub const NONE: Self = Self {
        requests_per_second: 0,
        request_burst: 0,
        sockets: 0,
        runs: 0,
        append_bytes_per_second: 0,
        append_byte_burst: 0,
    };
    /// For whom nobody vouches.
    pub const STRANGER: Self = Self {
        requests_per_second: USER_REQUESTS_PER_SECOND,
        request_burst: USER_REQUEST_BURST,
        sockets: USER_SOCKETS,
        runs: USER_RUNS,
        append_bytes_per_second: USER_APPEND_BYTES_PER_SECOND,
        append_byte_burst: USER_APPEND_BYTE_BURST,
    };
}

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident $project:ident $wire:literal $quotas:ident.$field:ident;)*) => {
        /// A quota, by the name that it has in project settings and in refusals.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Limit {
            $($(#[$doc])* $name,)*
            /// Subscriptions on one socket.
            Subscriptions,
            /// Bytes of request bodies that a node holds.
            BodyMemory,
            /// Bytes of large answers that a node holds.
            AnswerMemory,
        }

        impl Limit {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)* Self::Subscriptions, Self::BodyMemory, Self::AnswerMemory];

            /// Its name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $wire,)*
                    Self::Subscriptions => "subscriptionsPerSocket",
                    Self::BodyMemory => "bodyMemoryBytes",
                    Self::AnswerMemory => "answerMemoryBytes",
                }
            }
        }

        /// The limits that a project has instead of those of the configuration; what is absent is as configured. 0 is no
        /// limit.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub struct ProjectLimits {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $project: Option<u64>,)*
            /// Subscriptions on one socket; here 0 is none at all.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub subscriptions_per_socket: Option<u64>,
        }

        impl ProjectLimits {
            /// The limits of a node, with these in their place.
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
    /// Requests a second of a user.
    UserRequests user_requests_per_second "userRequestsPerSecond" user.requests_per_second;
    /// Requests at once of a user.
    UserRequestBurst user_request_burst "userRequestBurst" user.request_burst;
    /// Sockets and event streams of a user.
    UserSockets user_sockets "userSockets" user.sockets;
    /// Runs of a user.
    UserRuns user_runs "userRuns" user.runs;
    /// Bytes a second of a user.
    UserAppendBytes user_append_bytes_per_second "userAppendBytesPerSecond" user.append_bytes_per_second;
    /// Bytes at once of a user.
    UserAppendByteBurst user_append_byte_burst "userAppendByteBurst" user.append_byte_burst;
    /// Requests a second of a project.
    ProjectRequests project_requests_per_second "projectRequestsPerSecond" project.requests_per_second;
    /// Requests at once of a project.
    ProjectRequestBurst project_request_burst "projectRequestBurst" project.request_burst;
    /// Sockets and event streams of a project.
    ProjectSockets project_sockets "projectSockets" project.sockets;
    /// Runs of a project.
    ProjectRuns project_runs "projectRuns" project.runs;
    /// Bytes a second of a project.
    ProjectAppendBytes project_append_bytes_per_second "projectAppendBytesPerSecond" project.append_bytes_per_second;
    /// Bytes at once of a project.
    ProjectAppendByteBurst project_append_byte_burst "projectAppendByteBurst" project.append_byte_burst;
}

impl ProjectLimits {
    /// What was set on purpose holds in development mode as well.
    fn over_development(&self, quotas: Quotas) -> Quotas {
        Quotas {
            requests_per_second: self.user_requests_per_second.unwrap_or(quotas.requests_per_second),
            request_burst: self.user_request_burst.unwrap_or(quotas.request_burst),
            sockets: self.user_sockets.unwrap_or(quotas.sockets),
            runs: self.user_runs.unwrap_or(quotas.runs),
            append_bytes_per_second: self.user_append_bytes_per_second.unwrap_or(quotas.append_bytes_per_second),
            append_byte_burst: self.user_append_byte_burst.unwrap_or(quotas.append_byte_burst),
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
            // Those of project settings; memory is the node's.
            let of_a_project = !matches!(limit, Limit::BodyMemory | Limit::AnswerMemory);
            let setting = format!("{{\"{limit}\":1}}");
            assert_eq!(serde_json::from_str::<ProjectLimits>(&setting).is_ok(), of_a_project, "{limit}");
        }
    }
}
