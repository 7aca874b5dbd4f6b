//! The checker as a process of its own: it knows the histories, and reads the rest over HTTP.

use std::{env, fmt::Write, fs, path::Path, time::Duration};

use threadline_client::{Client, ClientConfig};

use crate::{
    check::{Log, check},
    history::{self, Class},
    run::{NODES, RECORD, REPORT},
};

/// For the whole log of a thread.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether everything is as it must be; the report is in the directory of the histories.
pub fn judge() -> bool {
    let (Some(record), Ok(nodes)) = (env::var_os(RECORD), env::var(NODES)) else {
        println!("this is the other half of a run of chaos");
        return true;
    };
    let record = Path::new(&record);
    let nodes: Vec<&str> = nodes.split(' ').collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut problems = Vec::new();
    let mut asked = 0;
    let log = |thread: &str| {
        // Each thread from another node.
        asked += 1;
        match runtime.block_on(fetch(nodes[asked % nodes.len()], thread)) {
            Ok(log) => Some(log),
            Err(error) => {
                problems.push(format!("{thread}: {error}"));
                None
            }
        }
    };
    let mut found = check(&history::read(record), log);
    for problem in problems {
        found.wrong(Class::Lost, 1, problem);
    }
    let mut report = found.to_string();
    writeln!(report, "{}", found.last_line()).expect("a text");
    fs::write(record.join(REPORT), report).expect("room for the report");
    found.is_clean()
}

/// All that a node has of a thread.
async fn fetch(node: &str, thread: &str) -> Result<Log, String> {
    let http = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .timeout(PATIENCE)
        .build()
        .map_err(|error| error.to_string())?;
    let client = Client::new(ClientConfig::new(node)).map_err(|error| error.to_string())?;
    let url = format!("{node}/v1/threads/{thread}/events");
    let response = http.get(url).header("accept", "application/x-ndjson").send().await;
    let response = response.and_then(reqwest::Response::error_for_status).map_err(|error| format!("{error:?}"))?;
    let epoch = response.headers().get("threadline-epoch").and_then(|epoch| epoch.to_str().ok());
    let epoch = epoch.unwrap_or_default().to_owned();
    let text = response.text().await.map_err(|error| format!("{error:?}"))?;
    let row = client.thread(thread).await.map_err(|error| error.to_string())?;
    let mut log = Log { epoch, tail: row.tail, queued: row.queued, ..Log::default() };
    log.read(&text)?;
    let mut cursor = None::<String>;
    loop {
        let page = client.list_runs(thread, Some(500), cursor.as_deref()).await.map_err(|error| error.to_string())?;
        for run in page.runs {
            if let Some(twice) = log.runs.insert(run.run_id.clone(), run) {
                return Err(format!("run {} is listed twice", twice.run_id));
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(log);
        }
    }
}
