//! The store for SkillKit, on Erlang's own HTTP client: its tests are in `sdk/elixir`.

use std::{path::Path, process::Command};

use crate::process::{PATIENCE, Process};

#[test]
fn skillkits_conversations_are_kept() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = Command::new("mix").arg("--version").current_dir(root.join("sdk/elixir")).output();
    assert!(
        found.is_ok(),
        "Elixir is missing: apt-get install elixir erlang-inets erlang-ssl, or run scripts/setup.sh test"
    );
    let mut command = Command::new("mix");
    command.args(["test", "--warnings-as-errors"]).current_dir(root.join("sdk/elixir"));
    command.env("THREADLINE", env!("CARGO_BIN_EXE_threadline"));
    command.env("MIX_BUILD_PATH", root.join("target/elixir")).env("MIX_ENV", "test");
    let mut tests = Process::start("mix", command);
    let status = tests.wait();
    let said = tests.said();
    assert!(status.success(), "{status}");
    // A runner that found no test is content, too.
    let passed = said.lines().find_map(|line| line.strip_suffix(" tests, 0 failures")?.parse::<u32>().ok());
    assert!(passed.is_some_and(|passed| passed >= 21), "{passed:?} passed within {PATIENCE:?}");
    println!("{}", said.lines().find(|line| line.starts_with("2,000 messages")).unwrap_or_default());
}
