//! LangGraph's own server beside ours: the cases are in `node/langgraph-oracle.test.mjs`.

use std::fs;

use crate::{
    chat::passes,
    process::{Process, langgraph_dev, node, path, port, threadline},
};

#[test]
#[ignore = "LangGraph's server is installed for it: make test-full"]
fn langgraphs_server_sends_the_same_events_in_the_same_order() {
    let data = tempfile::tempdir().expect("a directory");
    let (_server, url) = threadline(data.path(), 0, None);
    // The server writes beside its graph.
    let folder = tempfile::tempdir().expect("a directory");
    for file in ["graph.py", "langgraph.json"] {
        fs::copy(path("tests/real/oracle").join(file), folder.path().join(file)).expect("copied");
    }
    let port = port();
    let _oracle = Process::start("langgraph dev", langgraph_dev(folder.path(), port));
    let mut command = node();
    command.args(["--test", "--test-reporter=tap", "langgraph-oracle.test.mjs"]);
    command.env("THREADLINE_URL", url).env("ORACLE_URL", format!("http://127.0.0.1:{port}"));
    passes(Process::start("node", command), 8);
}
