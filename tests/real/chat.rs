//! AG-UI's own clients in front of `/agui/{agent}`, the AI SDK in front of `/ai/{agent}`, LangGraph's SDK in front of `/langgraph`, and a client of Durable Streams: the cases are in `node/*.test.mjs` and `python/cases.py`.

use crate::process::{Process, agent, node, python_of, threadline};

/// At least this many cases must have passed: a runner that finds no case succeeds, too.
fn passes(mut cases: Process, least: u32) {
    let status = cases.wait();
    assert!(status.success(), "{status}");
    let passed = cases.said().lines().find_map(|line| line.strip_prefix("# pass ")?.parse::<u32>().ok());
    assert!(passed.is_some_and(|passed| passed >= least), "{passed:?} cases passed");
}

#[test]
fn the_ag_ui_client_chats_with_every_agent() {
    let data = tempfile::tempdir().expect("a directory");
    let (_agent, url) = agent(2);
    let (_server, url) = threadline(data.path(), 0, Some(&url));
    let mut command = node();
    command.args(["--test", "--test-reporter=tap", "chat.test.mjs"]);
    command.env("AGENTS", "demo,trips").env("THREADLINE_URL", url);
    passes(Process::start("node", command), 17);
}

#[test]
fn the_ag_ui_client_leaves_in_every_way() {
    let data = tempfile::tempdir().expect("a directory");
    let (_server, url) = threadline(data.path(), 0, None);
    let mut command = node();
    command.args(["--test", "--test-reporter=tap", "leaving.test.mjs"]).env("THREADLINE_URL", url);
    passes(Process::start("node", command), 8);
}

#[test]
fn the_ai_sdk_chats_unchanged() {
    let data = tempfile::tempdir().expect("a directory");
    let (_server, url) = threadline(data.path(), 0, None);
    let mut command = node();
    command.args(["--test", "--test-reporter=tap", "ai-sdk.test.mjs"]).env("THREADLINE_URL", url);
    passes(Process::start("node", command), 15);
}

#[test]
fn the_ai_sdk_resumes_an_answer_after_the_server_was_killed() {
    let data = tempfile::tempdir().expect("a directory");
    let mut command = node();
    command.args(["--test", "--test-reporter=tap", "ai-sdk-killed.test.mjs"]);
    command.env("THREADLINE", env!("CARGO_BIN_EXE_threadline")).env("DATA", data.path());
    command.env("PORT", crate::process::port().to_string());
    passes(Process::start("node", command), 2);
}

#[test]
fn the_clients_of_langgraph_stream_unchanged() {
    let data = tempfile::tempdir().expect("a directory");
    let (_server, url) = threadline(data.path(), 0, None);
    let mut command = node();
    command.args(["--test", "--test-reporter=tap", "langgraph.test.mjs"]).env("THREADLINE_URL", url);
    passes(Process::start("node", command), 28);
}

#[test]
fn a_run_has_the_events_that_langgraphs_server_had() {
    let data = tempfile::tempdir().expect("a directory");
    let (_server, url) = threadline(data.path(), 0, None);
    let mut command = node();
    command.args(["--test", "--test-reporter=tap", "langgraph-oracle.test.mjs"]).env("THREADLINE_URL", url);
    passes(Process::start("node", command), 8);
}

#[test]
fn use_stream_of_langgraph_in_chromium() {
    let data = tempfile::tempdir().expect("a directory");
    let (_server, url) = threadline(data.path(), 0, None);
    let mut command = node();
    command.args(["--test", "--test-reporter=tap", "langgraph-page.test.mjs"]).env("THREADLINE_URL", url);
    passes(Process::start("node", command), 3);
}

#[test]
fn a_client_of_langgraph_takes_a_half_answer_back_after_the_server_was_killed() {
    let data = tempfile::tempdir().expect("a directory");
    let mut command = node();
    command.args(["--test", "--test-reporter=tap", "langgraph-killed.test.mjs"]);
    command.env("THREADLINE", env!("CARGO_BIN_EXE_threadline")).env("DATA", data.path());
    command.env("PORT", crate::process::port().to_string());
    passes(Process::start("node", command), 2);
}

#[test]
fn openais_client_works_unchanged() {
    let data = tempfile::tempdir().expect("a directory");
    let (_server, url) = threadline(data.path(), 0, None);
    let mut command = node();
    command.args(["--test", "--test-reporter=tap", "openai.test.mjs"]).env("THREADLINE_URL", url);
    passes(Process::start("node", command), 8);
}

#[test]
fn openais_client_reads_on_after_the_server_was_killed() {
    let data = tempfile::tempdir().expect("a directory");
    let mut command = node();
    command.args(["--test", "--test-reporter=tap", "openai-killed.test.mjs"]);
    command.env("THREADLINE", env!("CARGO_BIN_EXE_threadline")).env("DATA", data.path());
    command.env("PORT", crate::process::port().to_string());
    passes(Process::start("node", command), 1);
}

/// The client for Python, and the session of the Agents SDK, in the environment of the package's own tests.
#[test]
fn openais_clients_for_python_work_unchanged() {
    let data = tempfile::tempdir().expect("a directory");
    let (_server, url) = threadline(data.path(), 0, None);
    let mut command = python_of("pipe-openai-newest", "tests/real/python/openai_session.py");
    command.arg(&url);
    passes(Process::start("python", command), 3);
}

#[test]
fn a_durable_streams_client_reads_threads_and_runs() {
    let data = tempfile::tempdir().expect("a directory");
    let mut command = node();
    command.args(["--test", "--test-reporter=tap", "streams.test.mjs"]);
    command.env("THREADLINE", env!("CARGO_BIN_EXE_threadline")).env("DATA", data.path());
    command.env("PORT", crate::process::port().to_string());
    passes(Process::start("node", command), 7);
}

/// The newest, and the one that the agent of the examples is built on.
#[test]
fn the_ag_ui_models_of_python_chat_with_every_agent() {
    let data = tempfile::tempdir().expect("a directory");
    let (_agent, url) = agent(4);
    let (_server, url) = threadline(data.path(), 0, Some(&url));
    for venv in ["agui-venv", "example-venv"] {
        let mut command = python_of(venv, "tests/real/python/cases.py");
        command.args([&url, "demo,trips"]);
        passes(Process::start("python", command), 12);
    }
}

#[test]
fn a_tool_call_is_approved_once_from_any_client() {
    let data = tempfile::tempdir().expect("a directory");
    let mut agent = Process::start("the agent", python_of("example-venv", "tests/real/python/mails.py"));
    let agent_url = format!("{}/", agent.printed("running on "));
    let (_server, url) = threadline(data.path(), 0, Some(&agent_url));
    let mut command = python_of("agui-venv", "tests/real/python/approvals.py");
    command.args([&url, "trips", &agent_url]);
    passes(Process::start("python", command), 1);
}
