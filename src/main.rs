//! The `threadline` program.

use std::{io::Write, net::SocketAddr, process::ExitCode, time::Duration};

use clap::FromArgMatches;
use nix::sys::stat::{Mode, umask};
use threadline::{
    agents::DEMO,
    api::front,
    app::{self, App, ServeConfig, StoreChoice},
    bench,
    cli::{self, Cli, Command, ListenAddress},
    config::{self, Configuration, LogFormat, without_secrets},
    naming::Naming,
    service::LockTiming,
    telemetry,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time,
};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    // Whatever a command makes is for its owner alone.
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
    let matches = cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    // A command is needed, so there is one.
    let of_command = matches.subcommand().map(|(_, matches)| matches).unwrap_or(&matches);
    match cli.command {
        Command::Serve(_) => match config::load(of_command) {
            Ok(configuration) => serve(configuration).await,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::from(cli::MISUSED)
            }
        },
        Command::Config(args) => cli::report(cli::config::run(&args, of_command)),
        Command::Run(args) => cli::report(cli::run::run(&cli.connect, &args).await),
        Command::Tail(args) => cli::report(cli::tail::run(&cli.connect, &args).await),
        Command::Threads(args) => cli::report(cli::threads::run(&cli.connect, &args).await),
        Command::Health(args) => cli::report(cli::health::run(&cli.connect, &args).await),
        Command::Export(args) => cli::report(cli::moving::export(&cli.connect, &args).await),
        Command::Import(args) => cli::report(cli::moving::import(&cli.connect, &args).await),
        Command::Keys(args) => cli::report(cli::identity::keys(&cli.connect, &args, &mut std::io::stdout()).await),
        Command::Token(args) => cli::report(cli::identity::token(&cli.connect, &args, &mut std::io::stdout()).await),
        Command::Projects(args) => {
            cli::report(cli::identity::projects(&cli.connect, &args, &mut std::io::stdout()).await)
        }
        Command::Users(args) => cli::report(cli::identity::users(&cli.connect, &args, &mut std::io::stdout()).await),
        Command::Audit(args) => cli::report(cli::identity::audit(&cli.connect, &args, &mut std::io::stdout()).await),
        Command::Backup(args) => cli::report(cli::backup::run(&args).await),
        Command::Restored(args) => cli::report(cli::moving::restored(&args).await),
        Command::Migrate(args) => match app::migrate(&args.store).await {
            Ok(done) => {
                println!("{done}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
        Command::Bench(args) => match bench::run(args).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
        Command::Openapi => {
            println!("{}", front::openapi_text());
            ExitCode::SUCCESS
        }
    }
}

async fn serve(configuration: Configuration) -> ExitCode {
    let args = &configuration.args;
    telemetry::init(&args.log, args.log_format == LogFormat::Json);
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(files) if files < configuration.limits.connections as u64 => {
            tracing::warn!(files, "few files may be open at once: connections beyond that wait (ulimit -n)");
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the limit of open files cannot be raised"),
    }
    let delay = configuration.args.drain_delay();
    // Before anybody can know that the server is there, and have something to end.
    let mut signals = Signals::watch();
    let started = tokio::select! {
        started = start(configuration) => started,
        _ = signals.next() => return ExitCode::SUCCESS,
    };
    match started {
        Ok(app) => {
            let leaving = app.leaving();
            if app.run(asked_to_stop(signals, leaving, delay)).await { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn start(configuration: Configuration) -> Result<App, Box<dyn std::error::Error>> {
    let Configuration { args, agents, api_key, naming_endpoint, limits, origins, .. } = configuration;
    let names = agents.iter().map(|agent| agent.id.to_string());
    let names: Vec<_> = names.chain([DEMO.to_owned()]).collect::<std::collections::BTreeSet<_>>().into_iter().collect();
    let (place, store) = match &args.store {
        Some(url) => (without_secrets(url), StoreChoice::Postgres(url.clone())),
        None => (args.data.display().to_string(), StoreChoice::Sqlite(args.data.clone())),
    };
    let config = ServeConfig {
        listen: resolve(&args.listen).await?,
        store,
        redis: args.redis.filter(|url| !url.is_empty()),
        timing: LockTiming {
            ttl: Duration::from_secs(args.lock_ttl_seconds),
            heartbeat: Duration::from_secs(args.lock_heartbeat_interval_seconds),
        },
        lock_key_prefix: args.lock_key_prefix,
        api_key,
        agents,
        agent_networks: args.allow_agent_networks,
        limits,
        origins,
        naming: args.generate_thread_names.then(|| match naming_endpoint {
            Some(endpoint) => Naming::default().with_endpoint(endpoint),
            None => Naming::default(),
        }),
    };
    let redis = config.redis.as_deref().map(|url| format!("\n  redis   {}", without_secrets(url))).unwrap_or_default();
    let app = App::start(config).await?;
    let mode = if app.is_development() {
        "development: no API key is set, so everybody on this machine is let in (set THREADLINE_API_KEY to change that)"
    } else {
        "an API key is needed: Authorization: Bearer <THREADLINE_API_KEY>"
    };
    let url = format!("http://{}", app.local_addr()?);
    // Whoever started us may have stopped reading; that is no reason not to serve.
    let _ = writeln!(
        std::io::stdout(),
        "Threadline {} is listening on {url}\n  data    {place}{redis}\n  agents  {}\n  mode    {mode}\n  stop    Ctrl-C",
        env!("CARGO_PKG_VERSION"),
        names.join(", "),
    );
    Ok(app)
}

/// The first address of a name; an IPv4 one if there is a choice, since more programs can reach it.
async fn resolve(listen: &ListenAddress) -> Result<SocketAddr, String> {
    let wrong = |reason: &dyn std::fmt::Display| format!("cannot listen on {listen}: {reason}");
    let addresses =
        tokio::net::lookup_host((listen.host.as_str(), listen.port)).await.map_err(|error| wrong(&error))?;
    addresses.min_by_key(|address| !address.is_ipv4()).ok_or_else(|| wrong(&"the name has no address"))
}

/// What asks the program to end.
struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
}

impl Signals {
    fn watch() -> Self {
        let watch = |kind| signal(kind).map_err(|error| tracing::warn!(%error, "a signal cannot be watched for")).ok();
        Self { interrupt: watch(SignalKind::interrupt()), terminate: watch(SignalKind::terminate()) }
    }

    /// The next one.
    async fn next(&mut self) -> SignalKind {
        tokio::select! {
            () = received(&mut self.interrupt) => SignalKind::interrupt(),
            () = received(&mut self.terminate) => SignalKind::terminate(),
        }
    }
}

/// Completes with the next such signal; never if it cannot be watched for.
async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Completes on Ctrl-C; on SIGTERM after `delay`, in which the node is `leaving`, or with the next signal.
async fn asked_to_stop(mut signals: Signals, leaving: CancellationToken, delay: Duration) {
    // Who presses Ctrl-C sits before it and waits.
    if signals.next().await == SignalKind::interrupt() || delay.is_zero() {
        return;
    }
    tracing::info!("leaving: not ready any more, and answering for {} s; a second signal ends that", delay.as_secs());
    leaving.cancel();
    let _ = time::timeout(delay, signals.next()).await;
}
