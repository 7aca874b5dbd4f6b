//! Prints what is said in a thread, as it is said: `cargo run --example follow -- --thread chat`.
//!
//! It outlives the server: stop it and start it again, and the text goes on where it was. `--after` and `--epoch` go on in another
//! process.

use std::io::Write;

use clap::Parser;
use futures_util::StreamExt;
use threadline_client::{Client, ClientConfig, ClientError, TailItem, TailOptions};

/// Prints what is said in a thread, as it is said.
#[derive(Parser)]
struct Args {
    /// Which.
    #[arg(long)]
    thread: String,
    /// The server.
    #[arg(long, default_value = "http://127.0.0.1:7420")]
    url: String,
    /// The last seq that was seen.
    #[arg(long, default_value_t = 0)]
    after: u64,
    /// The epoch that it belongs to.
    #[arg(long)]
    epoch: Option<String>,
    /// Ends with the first run that does.
    #[arg(long)]
    once: bool,
}

#[tokio::main]
async fn main() -> Result<(), ClientError> {
    let args = Args::parse();
    let client = Client::new(ClientConfig::new(args.url))?;
    let options = TailOptions { after: args.after, epoch: args.epoch, run: None };
    let mut tail = client.tail(&args.thread, options);
    while let Some(item) = tail.next().await {
        // An error is the last item: no reconnect would help.
        match item? {
            TailItem::Hello { epoch, tail } => eprintln!("[epoch {epoch}, {tail} events]"),
            TailItem::Event { seq, event, .. } => {
                let event: serde_json::Value = serde_json::from_str(event.get()).unwrap_or_default();
                match event["type"].as_str().unwrap_or_default() {
                    "TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_CHUNK" => {
                        print!("{}", event["delta"].as_str().unwrap_or_default());
                        // Whether anybody reads it is not our business.
                        let _ = std::io::stdout().flush();
                    }
                    "TEXT_MESSAGE_END" => println!(),
                    "RUN_FINISHED" | "RUN_ERROR" => {
                        eprintln!("[run over; go on with --after {seq}]");
                        if args.once {
                            break;
                        }
                    }
                    _ => {}
                }
            }
            TailItem::Reconnecting { after, wait, error } => eprintln!("[{error}; again after {after} in {wait:?}]"),
            TailItem::Ended { reason } => eprintln!("[{reason:?}]"),
            TailItem::CaughtUp(_) | TailItem::FellBehind(_) => {}
        }
    }
    Ok(())
}
