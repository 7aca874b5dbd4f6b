//! The `threadline` program.

use std::process::ExitCode;

use threadline::app::{App, ServeConfig};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let config = ServeConfig {
        listen: std::env::var("THREADLINE_LISTEN").unwrap_or("127.0.0.1:7420".into()).parse().expect("addr"),
        data: std::env::var("THREADLINE_DATA").unwrap_or("./data".into()).into(),
        api_key: std::env::var("THREADLINE_API_KEY").ok(),
    };
    let app = match App::start(config).await {
        Ok(app) => app,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    eprintln!("listening on {:?}", app.local_addr());
    app.run(async {
        tokio::signal::ctrl_c().await.ok();
    })
    .await;
    ExitCode::SUCCESS
}
