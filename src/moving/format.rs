//! The lines of the files. `proto/export.md` describes them; what is not described there is refused.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::directory::hex;
use crate::{
    domain::{
        AgentId, Annotation, AnnotationError, AnnotationId, ApiKey, Digest, Epoch, Fence, KeyId, NameSource,
        NewAnnotation, ProjectId, Run, RunId, RunStatus, Scopes, Seq, Thread, ThreadId, ThreadKey, Timestamp, UserId,
    },
    store::{MovedThread, StoreError, StoredProject},
};

/// What the first line of a manifest calls itself.
pub const FORMAT: &str = "threadline-export";
/// The version written, and the newest one read.
pub const VERSION: u32 = 1;

/// A line that begins a file: `{"thread":{…}}`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadLine {
    /// The thread.
    pub thread: ThreadFacts,
}

/// A thread without its runs and events.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadFacts {
    project_id: ProjectId,
    thread_id: ThreadId,
    user_id: UserId,
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
    /// Written if it was ever read; so what was not is also understood by programs that know no marker.
    #[serde(default, skip_serializing_if = "is_zero")]
    read_seq: Seq,
    fence: i64,
}

fn is_zero(seq: &Seq) -> bool {
    *seq == 0
}

/// A JSON text of ours as it is.
fn raw(text: String) -> Result<Box<RawValue>, StoreError> {
    let one_line = !text.contains(['\n', '\r']);
    let raw = RawValue::from_string(text).ok().filter(|_| one_line);
    raw.ok_or_else(|| StoreError::Corrupt("a JSON text that is none".to_owned()))
}

impl ThreadFacts {
    /// Of this thread.
    pub fn of(moved: &MovedThread) -> Result<Self, StoreError> {
        let thread = moved.thread.clone();
        Ok(Self {
            project_id: thread.project,
            thread_id: thread.id,
            user_id: thread.user,
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
        })
    }

    /// The thread, with the run that is active in it.
    pub fn thread(self, active_run: Option<Run>) -> MovedThread {
        let thread = Thread {
            key: ThreadKey(0),
            project: self.project_id,
            id: self.thread_id,
            epoch: self.epoch,
            user: self.user_id,
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
        };
        MovedThread { thread, fence: Fence(self.fence) }
    }

    /// What is wrong with it, if anything is.
    pub fn fault(&self) -> Option<&'static str> {
        if !self.metadata.get().starts_with('{') {
            Some("metadata is not a JSON object")
        } else if self.version < 1 || self.fence < 0 || self.tail > i64::MAX.unsigned_abs() {
            Some("version, fence or tail is out of range")
        } else if self.read_seq > self.tail {
            Some("it was read beyond its tail")
        } else if self.name.is_some() != self.name_source.is_some() {
            Some("a name and its source come together")
        } else {
            None
        }
    }
}

/// `{"run":{…}}`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLine {
    /// The run.
    pub run: RunFacts,
}

/// The record of a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunFacts {
    run_id: RunId,
    fence: i64,
    agent_id: Option<AgentId>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    driven: bool,
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
    /// Of this run.
    pub fn of(run: Run) -> Result<Self, StoreError> {
        Ok(Self {
            run_id: run.id,
            fence: run.fence.0,
            agent_id: run.agent,
            driven: run.driven,
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

    /// The record.
    pub fn run(self) -> Run {
        Run {
            id: self.run_id,
            fence: Fence(self.fence),
            agent: self.agent_id,
            driven: self.driven,
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

/// An event in its envelope, as every page of the log has it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventLine<'a> {
    /// Its position.
    pub seq: Seq,
    /// Its run.
    pub run_id: RunId,
    /// When it was committed.
    pub at: Timestamp,
    /// Its own bytes.
    #[serde(borrow)]
    pub event: &'a RawValue,
}

/// `{"agent":{…}}`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentLine {
    /// The agent.
    pub agent: AgentFacts,
}

/// An agent that was made over the API.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentFacts {
    /// Its project.
    pub project_id: ProjectId,
    /// Its name.
    pub agent_id: AgentId,
    /// What it is.
    pub definition: Box<RawValue>,
}

impl AgentFacts {
    /// Of this agent.
    pub fn of(project_id: ProjectId, agent_id: AgentId, definition: String) -> Result<Self, StoreError> {
        Ok(Self { project_id, agent_id, definition: raw(definition)? })
    }
}

/// `{"annotation":{…}}`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnnotationLine {
    /// The annotation.
    pub annotation: AnnotationFacts,
}

/// An annotation of a thread.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnnotationFacts {
    project_id: ProjectId,
    thread_id: ThreadId,
    annotation_id: AnnotationId,
    r#type: String,
    payload: Box<RawValue>,
    occurred_at: Option<Timestamp>,
    at: Timestamp,
}

impl AnnotationFacts {
    /// Of this annotation.
    pub fn of(project_id: ProjectId, thread_id: ThreadId, annotation: Annotation) -> Result<Self, StoreError> {
        let Annotation { id, kind, payload, occurred_at, at } = annotation;
        Ok(Self { project_id, thread_id, annotation_id: id, r#type: kind, payload: raw(payload)?, occurred_at, at })
    }

    /// Which thread it is of, and the annotation as it is to be stored.
    pub fn annotation(self) -> Result<((ProjectId, ThreadId), NewAnnotation), AnnotationError> {
        let new = NewAnnotation::new(self.annotation_id, self.r#type, Some(&self.payload), self.occurred_at)?;
        Ok(((self.project_id, self.thread_id), NewAnnotation { at: Some(self.at), ..new }))
    }
}

/// A line of the file of projects: `{"project":{…}}` or `{"key":{…}}`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum ProjectLine {
    /// A project.
    Project(ProjectFacts),
    /// An API key.
    Key(KeyFacts),
}

/// A project. Its version is not among these: it counts the changes in one store.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProjectFacts {
    project_id: ProjectId,
    settings: Box<RawValue>,
    secrets: Box<RawValue>,
}

impl ProjectFacts {
    /// Of this project.
    pub fn of(project: StoredProject) -> Result<Self, StoreError> {
        let StoredProject { id, settings, secrets, .. } = project;
        Ok(Self { project_id: id, settings: raw(settings)?, secrets: raw(secrets)? })
    }

    /// The project, as it is made.
    pub fn project(self) -> StoredProject {
        let (settings, secrets) = (self.settings.get().to_owned(), self.secrets.get().to_owned());
        StoredProject { id: self.project_id, version: 1, settings, secrets }
    }
}

/// An API key.
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
}

impl KeyFacts {
    /// Of this key.
    pub fn of(key: ApiKey, digest: &Digest) -> Self {
        Self {
            project_id: key.project,
            key_id: key.id,
            sha256: hex(&digest.0),
            scopes: key.scopes.to_string(),
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
        }
    }

    /// The key and its digest, or what is wrong with it.
    pub fn key(self) -> Result<(ApiKey, Digest), String> {
        let scopes = Scopes::parse(&self.scopes);
        let scopes = scopes.map_err(|name| format!("this program knows no scope {name:?}"))?;
        let mut digest = Digest([0; 32]);
        for (byte, digits) in digest.0.iter_mut().zip(self.sha256.as_bytes().chunks(2)) {
            let digits = str::from_utf8(digits).ok();
            *byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0);
        }
        if hex(&digest.0) != self.sha256 {
            return Err("a SHA-256 has 64 hexadecimal digits".to_owned());
        }
        let key = ApiKey {
            id: self.key_id,
            project: self.project_id,
            scopes,
            created_at: self.created_at,
            expires_at: self.expires_at,
            revoked_at: self.revoked_at,
        };
        Ok((key, digest))
    }
}

/// A line of the file of feeds: `{"feed":{…}}`, followed by an `{"entry":{…}}` for each thread in it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum FeedLine {
    /// A user's feed begins.
    Feed {
        /// Its project.
        project_id: ProjectId,
        /// Its user.
        user_id: UserId,
        /// The newest position that it has given.
        head: u64,
    },
    /// The newest change of a thread.
    Entry {
        /// Its position.
        cursor: u64,
        /// The thread.
        thread_id: ThreadId,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_was_never_read_is_written_as_before_there_were_markers() {
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
        };
        let (key, digest) = written(&"0f".repeat(32), "read write").key().expect("a key");
        assert_eq!((key.scopes, digest), (Scopes::USER, Digest([15; 32])));
        for digits in
            ["", "0f", &"0f".repeat(31), &"0f".repeat(33), &"0F".repeat(32), &"+f".repeat(32), &"é".repeat(32)]
        {
            assert!(written(digits, "").key().is_err(), "{digits}");
        }
        let told = written(&"0f".repeat(32), "read fly").key().expect_err("no such scope");
        assert_eq!(told, "this program knows no scope \"fly\"");
    }
}
