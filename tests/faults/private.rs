//! Files on disk are accessible to their owner alone, regardless of the umask of the process.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use nix::sys::signal::Signal;

use crate::{
    api::Api,
    server::{Server, command},
};

const BINARY: &str = env!("CARGO_BIN_EXE_threadline");
/// A umask with which many systems start their services: new files are readable by every user.
const OPEN: [&str; 4] = ["sh", "-c", "umask 000 && exec \"$@\"", "sh"];

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode() & 0o7777
}

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
}

/// Every file below, with what others may do with it.
#[track_caller]
fn assert_private(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    assert_eq!(mode(path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a directory") {
            let entry = entry.expect("an entry");
            names.push(entry.file_name().into_string().expect("text"));
            names.extend(assert_private(&entry.path()));
        }
    }
    names.sort();
    names
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(OPEN[0]);
    command.args(&OPEN[1..]).arg(BINARY).args(arguments).output().expect("the program runs")
}

/// The first line that it has logged with this word; what it has written is read a moment later.
pub async fn logged(server: &Server, word: &str) -> String {
    let found = async {
        loop {
            if let Some(line) = server.said().lines().find(|line| line.contains(word)) {
                return line.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(60), found).await;
    found.unwrap_or_else(|_| panic!("no {word:?} in\n{}", server.said()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_backups_and_exports_are_for_their_owner_alone() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("var/data");
    let mut server = Server::start(command(&data, &OPEN));
    Api::of(&server.url).post("/v1/threads", r#"{"threadId":"t"}"#).await.done();
    let files = assert_private(&data);
    for file in ["lock", "secret.key", "threadline.db", "threadline.db-shm", "threadline.db-wal"] {
        assert!(files.iter().any(|found| found == file), "{file} in {files:?}");
    }
    assert_eq!(mode(&home.path().join("var")), 0o700, "what is made on the way as well");
    // Beside the server, into a new directory and into one that is there.
    let (data_text, text) = (data.to_str().expect("text"), |path: &Path| path.to_str().expect("text").to_owned());
    let (new, there) = (home.path().join("backups/one"), home.path().join("there"));
    fs::create_dir(&there).expect("made");
    set(&there, 0o755);
    for to in [&new, &there] {
        let made = run(&["backup", "--data", data_text, &text(to)]);
        assert!(made.status.success(), "{made:?}");
        assert_eq!(assert_private(to), ["threadline.db"]);
    }
    server.signal(Signal::SIGTERM);
    assert!(server.wait(Duration::from_secs(12)).is_some_and(|status| status.success()));
    // One that is there already, and open to all, is closed.
    let export = home.path().join("export");
    fs::create_dir(&export).expect("made");
    set(&export, 0o777);
    let made = run(&["export", "--data", data_text, &text(&export)]);
    assert!(made.status.success(), "{made:?}");
    assert!(assert_private(&export).len() > 2);
    let imported = home.path().join("imported");
    let made = run(&["import", "--data", &text(&imported), &text(&export)]);
    assert!(made.status.success(), "{made:?}");
    assert_private(&imported);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_others_could_read_is_closed_to_them_at_the_start() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    drop(Server::on(&data));
    // As releases before this one have left it, killed in the middle of their work.
    set(&data, 0o755);
    for file in ["threadline.db", "threadline.db-wal", "lock", "secret.key"] {
        set(&data.join(file), 0o644);
    }
    let server = Server::start(command(&data, &OPEN));
    assert_private(&data);
    for path in [data.clone(), data.join("threadline.db"), data.join("threadline.db-wal"), data.join("secret.key")] {
        let line = logged(&server, &format!("{} ", path.display())).await;
        assert!(line.contains("WARN") && line.contains("accessible to other users"), "{line}");
    }
    drop(server);
    // Once.
    let server = Server::on(&data);
    Api::of(&server.url).get("/readyz").await.done();
    assert!(!server.said().contains("accessible to other users"), "{}", server.said());
}

#[tokio::test]
async fn a_directory_that_cannot_be_closed_to_others_is_refused() {
    // The mode of anything but a regular file must not change.
    let output = run(&["dev", "--listen", "127.0.0.1:0", "--data", "/proc/self"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("chmod go-rwx /proc/self") && said.contains("--data"), "{said}");
}
