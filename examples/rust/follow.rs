//! Prints the messages of a thread as they stream: `cargo run --example follow -- --thread chat`.
//!
//! The program outlives the server: stop the server and start it again, and the text continues where it stopped. `--after` and
//! `--epoch` continue in another process.

use std::io::Write;

use clap::Parser;
use futures_util::StreamExt;
use threadline_client::{Client, ClientConfig, ClientError, TailItem, TailOptions};

/// Prints the messages of a thread as they stream.
#[derive(Parser)]
struct Args {
    /// The thread.
    #[arg(long)]
    thread: String,
    /// The address of the server.
    #[arg(long, default_value = "http://127.0.0.1:7420")]
    url: String,
    /// The cursor: seq of the last event seen.
    #[arg(long, default_value_t = 0)]
    after: u64,
    /// The epoch of the cursor, which belongs to one log.
    #[arg(long)]
    epoch: Option<String>,
    /// Exits at the end of the first run.
    #[arg(long)]
    once: bool,
}

#[tokio::main]
async fn main() -> Result<(), ClientError> {
    let args = Args::parse();
    let client = Client::new(ClientConfig::new(args.url))?;
    let options = TailOptions { after: args.after, epoch: args.epoch, run: None };
    let mut tail = client.tail(&args.thread, options);
    let mut known = String::new();
    while let Some(item) = tail.next().await {
        // An error is the last item: reconnecting would not help.
        match item? {
            TailItem::Hello { epoch, tail } => {
                eprintln!("[epoch {epoch}, {tail} events]");
                known = epoch;
            }
            TailItem::Event { seq, event, .. } => {
                let event: serde_json::Value = serde_json::from_str(event.get()).unwrap_or_default();
                match event["type"].as_str().unwrap_or_default() {
                    "TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_CHUNK" => {
                        print!("{}", event["delta"].as_str().unwrap_or_default());
                        // A closed output is not an error of this program.
                        let _ = std::io::stdout().flush();
                    }
                    "TEXT_MESSAGE_END" => println!(),
                    "RUN_FINISHED" | "RUN_ERROR" => {
                        eprintln!("[run ended; continue with --after {seq} --epoch {known}]");
                        if args.once {
                            break;
                        }
                    }
                    _ => {}
                }
            }
            TailItem::Reconnecting { after, wait, error } => eprintln!("[{error}; again after {after} in {wait:?}]"),
            TailItem::Ended { reason } => eprintln!("[{reason:?}]"),
            TailItem::Queue(queue) => eprintln!("[{} turns wait]", queue.queued),
            TailItem::CaughtUp(_) | TailItem::FellBehind(_) | TailItem::Rebased { .. } => {}
        }
    }
    Ok(())
}
