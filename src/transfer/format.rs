//! Lines of the files, as described in `proto/export.md`; other members are refused.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadline_core::{
    AgentId, Annotation, AnnotationError, AnnotationId, ApiKey, Author, Born, Digest, Epoch, Fence, KeyId, NameSource,
    NewAnnotation, ProjectId, QueueState, Run, RunId, RunStatus, Scopes, Seq, Thread, ThreadId, ThreadKey, Timestamp,
    UserId, hex,
};
use threadline_store::{MovedThread, StoreError, StoredProject};

use super::{
    branches::BranchFacts,
    manifest::{ThreadName, claimed, is_claimed},
    selection::ExportedSecrets,
};

/// Name of the format in the first line of a manifest.
pub const FORMAT: &str = "threadline-export";
/// Version that is written, and the newest version that is read.
pub const VERSION: u32 = 1;

/// First line of a thread's file: `{"thread":{…}}`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadLine {
    pub thread: ThreadFacts,
}

/// Thread without its runs and events.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadFacts {
    project_id: ProjectId,
    thread_id: ThreadId,
    user_id: UserId,
    /// Written only for a thread that has not claimed its id; absent: claimed.
    #[serde(default = "claimed", skip_serializing_if = "is_claimed")]
    claimed: bool,
    agent_id: Option<AgentId>,
    name: Option<String>,
    name_source: Option<NameSource>,
    archived: bool,
    metadata: Box<RawValue>,
    created_at: Timestamp,
    updated_at: Timestamp,
    last_run_at: Option<Timestamp>,
    version: i64,
    created_with: String,
    epoch: Epoch,
    tail: Seq,
    /// Written only if the thread was ever read, so that programs without read markers accept an unread thread.
    #[serde(default, skip_serializing_if = "is_zero")]
    read_seq: Seq,
    fence: i64,
    /// Written only for a fork or a thread that was forked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    branch: Option<BranchFacts>,
}

fn is_zero(seq: &Seq) -> bool {
    *seq == 0
}

/// Stored JSON text, unchanged. Fails if it is not valid JSON on one line.
pub fn raw(text: String) -> Result<Box<RawValue>, StoreError> {
    let one_line = !text.contains(['\n', '\r']);
    let raw = RawValue::from_string(text).ok().filter(|_| one_line);
    raw.ok_or_else(|| StoreError::Corrupt("invalid JSON".to_owned()))
}

impl ThreadFacts {
    /// Facts of this thread.
    pub fn of(moved: &MovedThread) -> Result<Self, StoreError> {
        let thread = moved.thread.clone();
        Ok(Self {
            project_id: thread.project,
            thread_id: thread.id,
            user_id: thread.user,
            claimed: thread.claimed,
            agent_id: thread.agent,
            name: thread.name,
            name_source: thread.name_source,
            archived: thread.archived,
            metadata: raw(thread.metadata)?,
            created_at: thread.created_at,
            updated_at: thread.updated_at,
            last_run_at: thread.last_run_at,
            version: thread.version,
            created_with: thread.created_with,
            epoch: thread.epoch,
            tail: thread.tail,
            read_seq: thread.read_seq,
            fence: moved.fence.0,
            branch: BranchFacts::of(thread.branch),
        })
    }

    /// Builds the thread, with its active run.
    pub fn thread(self, active_run: Option<Run>) -> MovedThread {
        let thread = Thread {
            key: ThreadKey(0),
            project: self.project_id,
            id: self.thread_id,
            epoch: self.epoch,
            user: self.user_id,
            claimed: self.claimed,
            agent: self.agent_id,
            name: self.name,
            name_source: self.name_source,
            archived: self.archived,
            metadata: self.metadata.get().to_owned(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            last_run_at: self.last_run_at,
            version: self.version,
            created_with: self.created_with,
            tail: self.tail,
            read_seq: self.read_seq,
            active_run,
            last_run: None,
            open_interrupts: 0,
            // Queued turns are not exported: inputs may hold secrets.
            queue: QueueState::default(),
            branch: self.branch.map(BranchFacts::branch).unwrap_or_default(),
        };
        MovedThread { thread, fence: Fence(self.fence), interrupts: None, request: None }
    }

    /// Finds an inconsistency in the facts.
    pub fn fault(&self) -> Option<&'static str> {
        if !self.metadata.get().starts_with('{') {
            Some("metadata is not a JSON object")
        } else if self.version < 1 || self.fence < 0 || self.tail > i64::MAX.unsigned_abs() {
            Some("version, fence or tail is out of range")
        } else if self.read_seq > self.tail {
            Some("it was read beyond its tail")
        } else if self.branch.as_ref().is_some_and(|branch| branch.is_beyond(self.tail)) {
            Some("it was forked beyond its tail")
        } else if self.name.is_some() != self.name_source.is_some() {
            Some("a name and its source come together")
        } else {
            None
        }
    }
}

/// Line with a run: `{"run":{…}}`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLine {
    pub run: RunFacts,
}

/// Record of a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunFacts {
    run_id: RunId,
    fence: i64,
    agent_id: Option<AgentId>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    driven: bool,
    /// Absent in exports from before runs had authors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked_by: Option<String>,
    /// Absent in exports from before runs had attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<u64>,
    status: RunStatus,
    error_code: Option<String>,
    error_message: Option<String>,
    usage: Option<Box<RawValue>>,
    first_seq: Seq,
    producer_seq: u64,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    lease_until: Option<Timestamp>,
    stop_requested_at: Option<Timestamp>,
}

impl RunFacts {
    /// Facts of this run.
    pub fn of(run: Run) -> Result<Self, StoreError> {
        Ok(Self {
            run_id: run.id,
            fence: run.fence.0,
            agent_id: run.agent,
            driven: run.driven,
            author: run.author.map(|author| author.to_string()),
            asked_by: run.asked_by.map(|author| author.to_string()),
            attempt: Some(run.attempt).filter(|attempt| *attempt > 1),
            status: run.status,
            error_code: run.error_code,
            error_message: run.error_message,
            usage: run.usage.map(raw).transpose()?,
            first_seq: run.first_seq,
            producer_seq: run.producer_seq,
            started_at: run.started_at,
            ended_at: run.ended_at,
            lease_until: run.lease_until,
            stop_requested_at: run.stop_requested_at,
        })
    }

    /// Builds the record of the run.
    pub fn run(self) -> Run {
        Run {
            id: self.run_id,
            fence: Fence(self.fence),
            agent: self.agent_id,
            driven: self.driven,
            author: self.author.as_deref().map(Author::stored),
            asked_by: self.asked_by.as_deref().map(Author::stored),
            attempt: self.attempt.unwrap_or(1),
            status: self.status,
            error_code: self.error_code,
            error_message: self.error_message,
            usage: self.usage.map(|usage| usage.get().to_owned()),
            first_seq: self.first_seq,
            producer_seq: self.producer_seq,
            started_at: self.started_at,
            ended_at: self.ended_at,
            lease_until: self.lease_until,
            stop_requested_at: self.stop_requested_at,
        }
    }
}

/// Event in its envelope, as in every page of the log.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventLine<'a> {
    /// Position in the log.
    pub seq: Seq,
    pub run_id: RunId,
    /// Time of the commit.
    pub at: Timestamp,
    /// The event itself, byte for byte.
    #[serde(borrow)]
    pub event: &'a RawValue,
}

/// Line with an annotation: `{"annotation":{…}}`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnnotationLine {
    pub annotation: AnnotationFacts,
}

/// Annotation of a thread.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnnotationFacts {
    project_id: ProjectId,
    thread_id: ThreadId,
    /// User who owns the thread, if it has not claimed its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_id: Option<UserId>,
    annotation_id: AnnotationId,
    r#type: String,
    payload: Box<RawValue>,
    occurred_at: Option<Timestamp>,
    at: Timestamp,
}

impl AnnotationFacts {
    /// Facts of this annotation.
    pub fn of((project_id, thread_id, user_id): ThreadName, annotation: Annotation) -> Result<Self, StoreError> {
        let Annotation { id, kind, payload, occurred_at, at } = annotation;
        Ok(Self {
            project_id,
            thread_id,
            user_id,
            annotation_id: id,
            r#type: kind,
            payload: raw(payload)?,
            occurred_at,
            at,
        })
    }

    /// Builds the name of the thread and the annotation to be stored.
    pub fn annotation(self) -> Result<(ThreadName, NewAnnotation), AnnotationError> {
        let new = NewAnnotation::new(self.annotation_id, self.r#type, Some(&self.payload), self.occurred_at)?;
        Ok(((self.project_id, self.thread_id, self.user_id), NewAnnotation { at: Some(self.at), ..new }))
    }
}

/// Line of the file of projects: `{"project":{…}}` or `{"key":{…}}`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ProjectLine {
    Project(ProjectFacts),
    Key(KeyFacts),
}

/// Project without its version, which counts the changes in one store.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProjectFacts {
    project_id: ProjectId,
    settings: Box<RawValue>,
    /// Absent in an export without secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<Box<RawValue>>,
    /// Last time of issue of a token that some sign-out of the project refuses. The digests of its subjects mean nothing in
    /// another store, so that there all tokens of the project that were issued up to then end. Absent without a sign-out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signed_out: Option<Timestamp>,
}

impl ProjectFacts {
    /// Facts of this project.
    pub fn of(
        project: StoredProject,
        signed_out: Option<Timestamp>,
        exported: ExportedSecrets,
    ) -> Result<Self, StoreError> {
        let StoredProject { id, settings, secrets, .. } = project;
        let secrets = match (exported, secrets) {
            (ExportedSecrets::LeftOut, _) => None,
            (ExportedSecrets::Written, Some(secrets)) => Some(raw(secrets)?),
            (ExportedSecrets::Written, None) => {
                return Err(StoreError::Corrupt(format!("the secrets of the project {id} cannot be opened")));
            }
        };
        Ok(Self { project_id: id, settings: raw(settings)?, secrets, signed_out })
    }

    /// Builds a new project, at version 1, and the time of its last sign-out.
    pub fn project(self) -> (StoredProject, Option<Timestamp>) {
        let (settings, secrets) =
            (self.settings.get().to_owned(), self.secrets.map(|secrets| secrets.get().to_owned()));
        let project = StoredProject { id: self.project_id, version: 1, settings, secrets, sealed: false };
        (project, self.signed_out)
    }
}

/// API key, by its digest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyFacts {
    project_id: ProjectId,
    key_id: KeyId,
    sha256: String,
    scopes: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    /// Absent in the line of a key that was made by a server with authentication, as in earlier exports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<String>,
    /// Key with which the key was made; absent if there is none, as in earlier exports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made_by: Option<KeyId>,
}

impl KeyFacts {
    /// Facts of this key.
    pub fn of(key: ApiKey, digest: &Digest) -> Self {
        Self {
            project_id: key.project,
            key_id: key.id,
            sha256: hex(&digest.0),
            scopes: key.scopes.to_string(),
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            born: (key.born != Born::Authenticated).then(|| key.born.as_str().to_owned()),
            made_by: key.made_by,
        }
    }

    /// Builds the key and its digest. Returns the fault of an invalid line.
    pub fn key(self) -> Result<(ApiKey, Digest), String> {
        // An export from before the scope `write` was divided has it.
        let names = self.scopes.split(' ').map(|name| if name == "write" { "chat approve produce" } else { name });
        let names = names.collect::<Vec<_>>().join(" ");
        let scopes = Scopes::parse(&names);
        let scopes = scopes.map_err(|name| format!("unknown scope {name:?}"))?;
        let mut digest = Digest([0; 32]);
        for (byte, digits) in digest.0.iter_mut().zip(self.sha256.as_bytes().chunks(2)) {
            let digits = str::from_utf8(digits).ok();
            *byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0);
        }
        if hex(&digest.0) != self.sha256 {
            return Err("a SHA-256 must have 64 hexadecimal digits".to_owned());
        }
        let key = ApiKey {
            id: self.key_id,
            project: self.project_id,
            scopes,
            created_at: self.created_at,
            expires_at: self.expires_at,
            revoked_at: self.revoked_at,
            born: self.born.as_deref().map_or(Born::Authenticated, Born::named),
            made_by: self.made_by,
            last_used: None,
        };
        Ok((key, digest))
    }
}

/// Line of the file of feeds: `{"feed":{…}}`, followed by an `{"entry":{…}}` for each thread in it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum FeedLine {
    /// First line of a user's feed.
    Feed {
        /// Project of the user.
        project_id: ProjectId,
        /// User who owns the feed.
        user_id: UserId,
        /// Newest position that the feed has assigned.
        head: u64,
        /// Epoch of the feed; absent in exports from before feeds had one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<Epoch>,
    },
    /// Newest change of a thread.
    Entry {
        /// Position in the feed.
        cursor: u64,
        /// Thread that has changed.
        thread_id: ThreadId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_thread_that_was_never_read_is_written_as_before_there_were_claims_and_markers() {
        let old = r#"{"thread":{"projectId":"p","threadId":"t","userId":"u","agentId":null,"name":null,"nameSource":null,"archived":false,"metadata":{},"createdAt":"2026-11-21T10:11:15.123Z","updatedAt":"2026-11-21T10:11:15.123Z","lastRunAt":null,"version":2,"createdWith":"","epoch":"0000000000000005","tail":3,"fence":1}}"#;
        let line = |text: &str| serde_json::from_str::<ThreadLine>(text).expect("a line").thread;
        let moved = line(old).thread(None);
        assert_eq!(moved.thread.read_seq, 0);
        let written = |moved: &MovedThread| {
            let thread = ThreadFacts::of(moved).expect("facts");
            serde_json::to_string(&ThreadLine { thread }).expect("a line")
        };
        let rewritten = written(&moved);
        assert!(!rewritten.contains("readSeq"), "{rewritten}");
        assert!(moved.thread.claimed && !rewritten.contains("claimed"), "{rewritten}");
        let own = Thread { claimed: false, ..moved.thread.clone() };
        let text = written(&MovedThread { thread: own, ..moved.clone() });
        assert!(text.contains("\"claimed\":false") && !line(&text).thread(None).thread.claimed, "{text}");
        for (read_seq, fault) in [(3, None), (4, Some("it was read beyond its tail"))] {
            let thread = Thread { read_seq, ..moved.thread.clone() };
            let text = written(&MovedThread { thread, ..moved.clone() });
            assert_eq!((line(&text).fault(), line(&text).thread(None).thread.read_seq), (fault, read_seq), "{text}");
        }
    }

    #[test]
    fn a_key_is_taken_only_as_it_was_written() {
        let written = |digits: &str, scopes: &str| KeyFacts {
            project_id: ProjectId::new("p").expect("id"),
            key_id: KeyId::new("k").expect("id"),
            sha256: digits.to_owned(),
            scopes: scopes.to_owned(),
            created_at: Timestamp(1),
            expires_at: None,
            revoked_at: None,
            born: None,
            made_by: None,
        };
        let (key, digest) = written(&"0f".repeat(32), "read write").key().expect("a key");
        assert_eq!((key.scopes, digest), (Scopes::TOKEN, Digest([15; 32])));
        for digits in
            ["", "0f", &"0f".repeat(31), &"0f".repeat(33), &"0F".repeat(32), &"+f".repeat(32), &"é".repeat(32)]
        {
            assert!(written(digits, "").key().is_err(), "{digits}");
        }
        let told = written(&"0f".repeat(32), "read fly").key().expect_err("no such scope");
        assert_eq!(told, "unknown scope \"fly\"");
    }
}
