//! The check that refuses dependencies that were not compared with the advisories.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// The script's verdict on a `Cargo.lock`, beside an `AUDITED` that names the committed one.
fn state(lock: &str) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let copy = tempfile::tempdir().expect("a directory");
    fs::create_dir(copy.path().join("scripts")).expect("made");
    fs::copy(root.join("scripts/audit.sh"), copy.path().join("scripts/audit.sh")).expect("copied");
    fs::write(copy.path().join("Cargo.lock"), "the lock file that was compared\n").expect("written");
    let digest = Command::new("sha256sum").arg(copy.path().join("Cargo.lock")).output().expect("sha256sum runs");
    let digest = String::from_utf8(digest.stdout).expect("text");
    let digest = digest.split_whitespace().next().expect("a digest");
    fs::write(copy.path().join("AUDITED"), format!("2026-08-21 nothing-known {digest}\n")).expect("written");
    fs::write(copy.path().join("Cargo.lock"), lock).expect("written");
    Command::new("bash").arg(copy.path().join("scripts/audit.sh")).arg("--state").output().expect("bash runs")
}

#[test]
fn dependencies_that_changed_since_the_audit_fail_the_lint() {
    let same = state("the lock file that was compared\n");
    assert!(same.status.success(), "{same:?}");
    let changed = state("another\n");
    let said = String::from_utf8_lossy(&changed.stderr).into_owned();
    assert_eq!(changed.status.code(), Some(1), "{changed:?}");
    assert!(said.contains("Cargo.lock") && said.contains("make audit ADVISORY_DB="), "{said}");
}
