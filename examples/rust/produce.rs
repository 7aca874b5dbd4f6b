//! Streams a text into a thread, word by word: `cargo run --example produce -- --thread chat "Hello there"`.
//!
//! Stop the server in between and start it again: no word is lost or repeated.

use std::time::Duration;

use clap::Parser;
use serde_json::json;
use threadline_client::{Client, ClientConfig, ClientError, CreateThread, RunOptions};
use tokio::time::sleep;

/// Streams a text into a thread, word by word.
#[derive(Parser)]
struct Args {
    /// The text.
    text: String,
    /// The thread.
    #[arg(long)]
    thread: String,
    /// The address of the server.
    #[arg(long, default_value = "http://127.0.0.1:7420")]
    url: String,
    /// Milliseconds per word.
    #[arg(long, default_value_t = 50)]
    pace: u64,
}

#[tokio::main]
async fn main() -> Result<(), ClientError> {
    let Args { text, thread, url, pace } = Args::parse();
    let client = Client::new(ClientConfig::new(url))?;
    // Repeating the call returns the existing thread.
    client.create_thread(&CreateThread { thread_id: Some(thread.clone()), ..CreateThread::default() }).await?;
    let mut run = client.run(&thread, RunOptions::default()).await?;
    let stop = run.stop_token();
    let message = format!("{}-message", run.run_id());
    let started = json!({ "type": "RUN_STARTED", "threadId": thread, "runId": run.run_id() });
    let begins = json!({ "type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant" });
    run.append_values(&[started, begins]).await?;
    for word in text.split_inclusive(' ') {
        // A stop was requested, by any client.
        if stop.is_cancelled() {
            break;
        }
        // Durable when this returns. While the server is unreachable, the append is retried for `retry_for`.
        run.append_values(&[json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": word })]).await?;
        sleep(Duration::from_millis(pace)).await;
    }
    // Open messages are closed, and RUN_FINISHED is appended.
    let run = run.finish().await?;
    println!("{:?}", run.status);
    Ok(())
}
