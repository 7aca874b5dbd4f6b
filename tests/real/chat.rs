//! The AG-UI client in front of `/agui/{agent}`: the cases are in `node/chat.test.mjs`.

use crate::process::{Process, agent, node, threadline};

#[test]
fn the_ag_ui_client_chats_with_every_agent() {
    let data = tempfile::tempdir().expect("a directory");
    let (_agent, url) = agent(2);
    let (_server, url) = threadline(data.path(), 0, Some(&url));
    let mut command = node();
    command.args(["--test", "--test-reporter=tap", "chat.test.mjs"]);
    command.env("AGENTS", "demo,trips").env("THREADLINE_URL", url);
    let mut cases = Process::start("node", command);
    let status = cases.wait();
    assert!(status.success(), "{status}");
    // A runner that found no case is content, too.
    let passed = cases.said().lines().find_map(|line| line.strip_prefix("# pass ")?.parse::<u32>().ok());
    assert!(passed.is_some_and(|passed| passed >= 17), "{passed:?} cases passed");
}
