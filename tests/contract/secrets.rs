//! Secrets that are sealed, the step to another key, and what a process without the keys can do.

use std::{fs, sync::Arc};

use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use tempfile::TempDir;
use threadline_core::ProjectId;
use threadline_secrets::Keyring;
use threadline_store::{
    SecretAccess, SecretForm, SecretName, StoredProject, TransferStore, postgres::PgStore, sqlite::SqliteStore,
};

use crate::{backing::postgres::Postgres, support::*};

const SECRETS: &str = "[\"the secret of the project\"]";
const DEFINITION: &str = "{\"url\":\"https://a.example/?key=the-key-of-the-agent\"}";
/// Every text that may be a secret.
const TEXTS: [&str; 3] = [
    "SELECT value FROM secrets",
    "SELECT secrets FROM projects ORDER BY id LIMIT 1",
    "SELECT definition FROM agents ORDER BY id LIMIT 1",
];

/// Data that stays while stores over it open and close.
enum Place {
    Directory(TempDir),
    Database(String),
}

impl Place {
    fn directory() -> Self {
        Self::Directory(tempfile::tempdir().expect("a directory"))
    }

    fn database() -> Self {
        Self::Database(Postgres::shared().fresh_database())
    }

    async fn open(&self, access: SecretAccess) -> Result<Arc<dyn TransferStore>, String> {
        match self {
            Self::Directory(dir) => match SqliteStore::open_with(dir.path(), clock(), access).await {
                Ok(store) => Ok(Arc::new(store)),
                Err(error) => Err(error.to_string()),
            },
            Self::Database(url) => match PgStore::open_with(url, clock(), access).await {
                Ok(store) => Ok(Arc::new(store)),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    async fn refused(&self, access: SecretAccess) -> String {
        self.open(access).await.err().expect("refused")
    }

    /// Changes rows behind the store, which is closed.
    async fn execute(&self, text: &str) {
        let text = AssertSqlSafe(text.to_owned());
        match self {
            Self::Directory(dir) => {
                let mut session = sqlite(dir).await;
                sqlx::raw_sql(text).execute(&mut session).await.expect("SQL");
                session.close().await.expect("closes");
            }
            Self::Database(url) => {
                let mut session = PgConnection::connect(url).await.expect("connects");
                sqlx::raw_sql(text).execute(&mut session).await.expect("SQL");
            }
        }
    }

    /// The texts in the tables, as they are stored.
    async fn texts(&self) -> Vec<String> {
        let mut texts = Vec::new();
        for text in TEXTS {
            texts.push(match self {
                Self::Directory(dir) => {
                    let mut session = sqlite(dir).await;
                    let found: String = sqlx::query_scalar(text).fetch_one(&mut session).await.expect("SQL");
                    session.close().await.expect("closes");
                    found
                }
                Self::Database(url) => {
                    let mut session = PgConnection::connect(url).await.expect("connects");
                    sqlx::query_scalar(text).fetch_one(&mut session).await.expect("SQL")
                }
            });
        }
        texts
    }
}

async fn sqlite(dir: &TempDir) -> SqliteConnection {
    let file = dir.path().join("threadline.db");
    SqliteConnection::connect(&format!("sqlite://{}", file.display())).await.expect("connects")
}

/// A line with a new key.
fn line(id: &str) -> String {
    let line = Keyring::new_line().expect("random");
    let (_, key) = line.split_once(':').expect("a line");
    format!("{id}:{key}")
}

fn ring(lines: &str) -> Arc<Keyring> {
    Arc::new(lines.parse().expect("keys"))
}

fn keys(lines: &str) -> SecretAccess {
    SecretAccess::Keys(Some(ring(lines)))
}

async fn put(store: &dyn TransferStore) {
    let (settings, secrets) = ("{}".to_owned(), Some(SECRETS.to_owned()));
    let new = StoredProject { id: project(), version: 1, settings, secrets, sealed: false };
    assert!(store.put_project(&new, None).await.expect("puts"));
    store.put_agent(&project(), &agent("a"), DEFINITION, None).await.expect("puts");
}

/// Secrets and definitions that the store gives out.
async fn seen(store: &dyn TransferStore) -> (Option<String>, Vec<String>) {
    let projects = store.projects().await.expect("reads");
    let agents = store.agents(&project()).await.expect("reads");
    (projects[0].secrets.clone(), agents.into_iter().map(|(_, definition)| definition).collect())
}

fn whole() -> (Option<String>, Vec<String>) {
    (Some(SECRETS.to_owned()), vec![DEFINITION.to_owned()])
}

async fn forms(store: &dyn TransferStore) -> Vec<SecretForm> {
    store.secret_forms().await.expect("reads").into_iter().map(|(_, form)| form).collect()
}

fn digest(store: &dyn TransferStore) -> [u8; 32] {
    store.digest_key("test").expect("a key").digest(&["ann"])
}

async fn the_first_key_seals_and_a_reseal_follows_it(place: Place) {
    let (old, new) = (line("old"), line("new"));
    let store = place.open(keys(&old)).await.expect("opens");
    put(store.as_ref()).await;
    assert_eq!((seen(store.as_ref()).await, forms(store.as_ref()).await), (whole(), vec![SecretForm::Sealed; 3]));
    assert!(store.projects().await.expect("reads")[0].sealed);
    let first = digest(store.as_ref());
    store.shut_down().await;
    for text in place.texts().await {
        assert!(text.starts_with("sealed:1:old:") && !text.contains("key-of"), "{text}");
    }
    // Neither without a key nor with another one.
    let without = place.refused(SecretAccess::default()).await;
    assert!(without.contains("\"old\"") && without.contains("--secret-key-file"), "{without}");
    let missing = place.refused(keys(&new)).await;
    assert!(missing.contains("\"old\"") && missing.contains("secrets renew"), "{missing}");
    let wrong = place.refused(keys(&line("old"))).await;
    assert!(wrong.contains("does not open"), "{wrong}");
    // A process that needs no secrets opens the store, and gets none.
    let store = place.open(SecretAccess::None).await.expect("opens");
    assert_eq!(seen(store.as_ref()).await, (None, Vec::new()));
    assert!(store.put_agent(&project(), &agent("b"), DEFINITION, None).await.is_err());
    assert!(store.all_agents().await.is_err() && store.digest_key("test").is_err());
    store.shut_down().await;
    // The old key still opens; once all is sealed with the new one, it is not needed.
    let store = place.open(keys(&format!("{new}{old}"))).await.expect("opens");
    assert_eq!(seen(store.as_ref()).await, whole());
    match place {
        Place::Directory(_) => assert_eq!(forms(store.as_ref()).await, [SecretForm::Sealed; 3], "at the start"),
        Place::Database(_) => {
            assert_eq!(forms(store.as_ref()).await, [SecretForm::OtherKey; 3], "other nodes may not have it yet");
            assert_eq!(store.reseal().await.expect("seals"), 3);
        }
    }
    assert_eq!(store.reseal().await.expect("seals"), 0);
    store.shut_down().await;
    assert!(place.texts().await.iter().all(|text| text.starts_with("sealed:1:new:")));
    let store = place.open(keys(&new)).await.expect("opens");
    assert_eq!((seen(store.as_ref()).await, digest(store.as_ref())), (whole(), first), "digests do not depend on keys");
    store.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_key_seals_and_a_reseal_follows_it_on_sqlite() {
    the_first_key_seals_and_a_reseal_follows_it(Place::directory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_key_seals_and_a_reseal_follows_it_on_postgres() {
    the_first_key_seals_and_a_reseal_follows_it(Place::database()).await;
}

async fn one_secret_that_cannot_be_opened_leaves_the_others(place: Place) {
    let key = line("k");
    let store = place.open(keys(&key)).await.expect("opens");
    put(store.as_ref()).await;
    let other = StoredProject {
        id: ProjectId::new("q").expect("an id"),
        version: 1,
        settings: "{}".into(),
        secrets: Some(SECRETS.into()),
        sealed: false,
    };
    assert!(store.put_project(&other, None).await.expect("puts"));
    store.put_agent(&project(), &agent("b"), "{}", None).await.expect("puts");
    store.shut_down().await;
    // A writer of the database gives a project the secrets of another one, and an agent a foreign definition.
    let own = project();
    place
        .execute(&format!(
            "UPDATE projects SET secrets = (SELECT secrets FROM projects WHERE id = '{own}') WHERE id = 'q'"
        ))
        .await;
    place.execute("UPDATE agents SET definition = (SELECT definition FROM agents WHERE id = 'a') WHERE id = 'b'").await;
    let store = place.open(keys(&key)).await.expect("opens");
    let projects = store.projects().await.expect("reads");
    let secrets: Vec<_> = projects.iter().map(|project| (project.id.as_str(), project.secrets.as_deref())).collect();
    assert_eq!(secrets, [(own.as_str(), Some(SECRETS)), ("q", None)]);
    assert_eq!(store.agents(&own).await.expect("reads"), [(agent("a"), DEFINITION.to_owned())]);
    let lost = store.secret_forms().await.expect("reads").into_iter().filter(|(_, form)| *form != SecretForm::Sealed);
    assert_eq!(
        lost.collect::<Vec<_>>(),
        [
            (SecretName::Project(other.id.clone()), SecretForm::Unopened),
            (SecretName::Agent(own.clone(), agent("b")), SecretForm::Unopened)
        ]
    );
    let without = StoredProject { version: 2, ..projects[1].clone() };
    assert!(store.put_project(&without, None).await.is_err(), "what was not opened is not stored");
    store.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_secret_that_cannot_be_opened_leaves_the_others_on_sqlite() {
    one_secret_that_cannot_be_opened_leaves_the_others(Place::directory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_secret_that_cannot_be_opened_leaves_the_others_on_postgres() {
    one_secret_that_cannot_be_opened_leaves_the_others(Place::database()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_stays_unsealed_until_a_node_has_keys() {
    let place = Place::database();
    let first = place.open(SecretAccess::default()).await.expect("opens");
    put(first.as_ref()).await;
    assert_eq!((first.sealing_key(), forms(first.as_ref()).await), (None, vec![SecretForm::Unsealed; 3]));
    assert!(!first.projects().await.expect("reads")[0].sealed);
    assert_eq!(place.texts().await[1..], [SECRETS, DEFINITION]);
    // Several nodes with keys at once: the root is sealed, and stays what it is.
    let key = line("k");
    let (one, two) = tokio::join!(place.open(keys(&key)), place.open(keys(&key)));
    let (one, two) = (one.expect("opens"), two.expect("opens"));
    assert_eq!([digest(one.as_ref()), digest(two.as_ref())], [digest(first.as_ref()); 2]);
    let refused = place.refused(SecretAccess::default()).await;
    assert!(refused.contains("\"k\""), "{refused}");
    // The node without keys goes on with what is not sealed; what the others write is not for it.
    assert_eq!(seen(first.as_ref()).await, whole());
    one.put_agent(&project(), &agent("b"), DEFINITION, None).await.expect("puts");
    assert_eq!(seen(first.as_ref()).await, whole(), "without the new one");
    assert_eq!(seen(two.as_ref()).await.1.len(), 2);
    assert_eq!(two.reseal().await.expect("seals"), 2);
    assert_eq!((seen(one.as_ref()).await.1.len(), forms(one.as_ref()).await), (2, vec![SecretForm::Sealed; 4]));
    for store in [first, one, two] {
        store.shut_down().await;
    }
}

/// An older release has left the secrets as they were, in pages that are now in use and in the write-ahead log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_of_an_older_release_are_sealed_and_leave_no_trace() {
    let place = Place::directory();
    let store = place.open(SecretAccess::default()).await.expect("opens");
    put(store.as_ref()).await;
    store.shut_down().await;
    // Longer than a page, so that parts of it are elsewhere.
    let long = format!("{{\"instructions\":\"{}\"}}", "the instructions of the agent ".repeat(1_000));
    place.execute(&format!("UPDATE agents SET definition = '{long}'")).await;
    place.execute(&format!("UPDATE projects SET secrets = '{SECRETS}'")).await;
    let Place::Directory(dir) = &place else { panic!("a directory") };
    let holds = |needle: &str| {
        let files = fs::read_dir(dir.path()).expect("a directory").map(|entry| entry.expect("an entry").path());
        let held = |path: &std::path::PathBuf| {
            let bytes = fs::read(path).expect("a file");
            bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
        };
        files.filter(held).collect::<Vec<_>>()
    };
    for needle in ["the instructions of the agent", "the secret of the project"] {
        assert!(!holds(needle).is_empty(), "{needle}");
    }
    let store = place.open(SecretAccess::default()).await.expect("opens");
    assert_eq!(seen(store.as_ref()).await, (Some(SECRETS.to_owned()), vec![long]));
    for needle in ["the instructions of the agent", "the secret of the project"] {
        assert_eq!(holds(needle), Vec::<std::path::PathBuf>::new(), "{needle}");
    }
    store.shut_down().await;
}

async fn after_the_loss_of_the_key_another_one_takes_over(place: Place) {
    let store = place.open(keys(&line("lost"))).await.expect("opens");
    put(store.as_ref()).await;
    let before = digest(store.as_ref());
    store.shut_down().await;
    let new = line("new");
    let store = place.open(SecretAccess::Renewal(Some(ring(&new)))).await.expect("opens");
    assert_ne!(digest(store.as_ref()), before);
    assert_eq!(forms(store.as_ref()).await, [SecretForm::Sealed, SecretForm::Unopened, SecretForm::Unopened]);
    let project = store.projects().await.expect("reads").remove(0);
    let renewed = StoredProject { version: 2, secrets: Some("[\"renewed\"]".into()), ..project };
    assert!(store.put_project(&renewed, None).await.expect("puts"));
    store.shut_down().await;
    let store = place.open(keys(&new)).await.expect("opens");
    assert_eq!(seen(store.as_ref()).await, (Some("[\"renewed\"]".to_owned()), Vec::new()));
    store.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_loss_of_the_key_another_one_takes_over_on_sqlite() {
    after_the_loss_of_the_key_another_one_takes_over(Place::directory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_loss_of_the_key_another_one_takes_over_on_postgres() {
    after_the_loss_of_the_key_another_one_takes_over(Place::database()).await;
}
