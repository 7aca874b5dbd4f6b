//! Every file of `crates/store/queries` is a statement that its database prepares with the parameters of the file's head,
//! and executes with the example.

use std::{fs, path::Path};

use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use threadline_core::Clock;
use threadline_store::{postgres::PgStore, sqlite::SqliteStore};

use crate::backing::postgres::Postgres;

/// A statement, and what the head of its file says.
struct File {
    name: String,
    text: String,
    /// Types of the parameters.
    parameters: Vec<String>,
    /// Values of the parameters, in SQL.
    example: String,
}

/// The files of a database, whose parameters begin with `sign`.
fn files(database: &str, sign: char) -> Vec<File> {
    let store = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/store");
    let mut found = Vec::new();
    for entry in fs::read_dir(store.join("queries").join(database)).expect("queries") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("a text");
        let head = || text.lines().map_while(|line| line.strip_prefix("-- "));
        let value = |label: &str| head().find_map(|line| line.strip_prefix(label)).map(str::trim);
        let (caller, file) = value("Caller: ").and_then(|caller| caller.split_once(" in ")).expect("a caller");
        let code = fs::read_to_string(store.join(file)).expect("the file of the caller");
        let called = ["(", "<"].iter().any(|next| code.contains(&format!("fn {caller}{next}")));
        assert!(called, "{name}: there is no fn {caller} in {file}");
        let mut parameters = Vec::new();
        for line in head().filter_map(|line| line.strip_prefix(sign)) {
            let words: Vec<&str> = line.split(": ").next().unwrap_or_default().split(' ').collect();
            let [number, _, kind] = words[..] else { panic!("{name}: not `number name type`: {line}") };
            assert_eq!(number, (parameters.len() + 1).to_string(), "{name}: the parameters are in order");
            parameters.push(kind.to_owned());
        }
        let example = value("example: ").unwrap_or_default().to_owned();
        found.push(File { name, text, parameters, example });
    }
    assert!(found.len() > 40, "{} files", found.len());
    found
}

#[tokio::test]
async fn postgres_prepares_every_file() {
    let url = Postgres::shared().fresh_database();
    PgStore::open(&url, Clock::system()).await.expect("opens").close().await;
    let mut session = PgConnection::connect(&url).await.expect("connects");
    for File { name, text, parameters, example } in files("postgres", '$') {
        let run = async |session: &mut PgConnection, text: String| {
            let done = sqlx::raw_sql(AssertSqlSafe(text)).execute(session).await;
            done.unwrap_or_else(|error| panic!("{name}: {error}"));
        };
        run(&mut session, format!("PREPARE file_{name} AS {text}")).await;
        let types =
            format!("SELECT unnest(parameter_types)::text FROM pg_prepared_statements WHERE name = 'file_{name}'");
        let types: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(types)).fetch_all(&mut session).await.expect("the types");
        assert_eq!(types, parameters, "{name}");
        let example = if parameters.is_empty() { example } else { format!("({example})") };
        run(&mut session, format!("BEGIN; EXECUTE file_{name} {example}; ROLLBACK")).await;
    }
}

#[tokio::test]
async fn sqlite_prepares_every_file() {
    let dir = tempfile::tempdir().expect("temp dir");
    SqliteStore::open(dir.path(), Clock::system()).await.expect("opens").close().await;
    let url = format!("sqlite://{}/threadline.db", dir.path().display());
    let mut session = SqliteConnection::connect(&url).await.expect("connects");
    for File { name, text, parameters, example } in files("sqlite", '?') {
        let (_, text) = text.split_once("\n\n").expect("an empty line after the head");
        let values: Vec<&str> = example.split(", ").collect();
        assert_eq!(values.len(), parameters.len(), "{name}: one value for each parameter");
        let mut with_values = text.to_owned();
        // From the last, since `?1` is in `?10`.
        for (index, value) in values.iter().enumerate().rev() {
            let number = format!("?{}", index + 1);
            assert!(with_values.contains(&number), "{name}: there is no {number}");
            with_values = with_values.replace(&number, value);
        }
        assert!(!with_values.contains('?'), "{name}: a parameter that the head does not name");
        let begin = if text.starts_with("BEGIN") { "" } else { "BEGIN; " };
        let uncommitted = with_values.trim_end().trim_end_matches("COMMIT");
        let end = if uncommitted.trim_end().ends_with(';') { "ROLLBACK" } else { "; ROLLBACK" };
        let done = sqlx::raw_sql(AssertSqlSafe(format!("{begin}{uncommitted}\n{end}"))).execute(&mut session).await;
        done.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
