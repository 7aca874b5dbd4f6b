//! The `threadline` program.

use std::process::ExitCode;

use threadline::app::{App, ServeConfig};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    if std::env::args().nth(1).as_deref() == Some("bench") {
        return bench().await;
    }
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

#[derive(clap::Parser)]
#[command(name = "threadline bench")]
struct Bench {
    #[command(flatten)]
    args: threadline::bench::BenchArgs,
}

async fn bench() -> ExitCode {
    let bench = <Bench as clap::Parser>::parse_from(std::env::args_os().skip(1));
    match threadline::bench::run(bench.args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
