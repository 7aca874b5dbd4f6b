//! The server as programs see it that were written by others: Autobahn's cases, and requests made up from the OpenAPI
//! document.

mod autobahn;
mod document;
mod statuses;

use std::{path::Path, process::Output, time::Duration};

pub use statuses::STORING;
use tokio::{process::Command, time};

/// Runs a script with the Python that `scripts/setup.sh test` has made, and gives what it printed.
async fn python(script: &str, arguments: &[&str], limit: Duration) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (python, installed) = (root.join("target/wire-venv/bin/python"), root.join("target/wire-venv/installed.txt"));
    assert!(installed.exists(), "{} is missing: make setup-test", installed.display());
    let mut command = Command::new(python);
    command.current_dir(root).arg(root.join("tests/e2e/wire").join(script)).args(arguments).kill_on_drop(true);
    time::timeout(limit, command.output()).await.unwrap_or_else(|_| panic!("{script} hangs")).expect("a program")
}

/// What a script printed; it must have succeeded.
async fn passes(script: &str, arguments: &[&str], limit: Duration) -> String {
    let output = python(script, arguments, limit).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}
