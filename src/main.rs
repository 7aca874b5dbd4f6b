//! Entry point of the `threadline` program.

use std::{fmt::Display, io::Write, net::SocketAddr, process::ExitCode, time::Duration};

use clap::FromArgMatches;
use nix::sys::stat::{Mode, umask};
use threadline::{
    agents::DEMO,
    api::router,
    app::{self, App, ServeConfig, StoreChoice},
    cli::{self, Cli, Command, ListenAddress},
    config::{self, Authentication, ConfigError, Configuration, LogFormat, StartCommand, without_secrets},
    telemetry,
    titles::TitleSettings,
};
use threadline_engine::LockTiming;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    // Files of every command are accessible to their owner only.
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
    let matches = cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    // The parser requires a subcommand, so there is one.
    let of_command = matches.subcommand().map(|(_, matches)| matches).unwrap_or(&matches);
    match cli.command {
        Command::Serve(_) => serve(config::load(of_command, StartCommand::Serve)).await,
        Command::Dev(_) => serve(config::load(of_command, StartCommand::Dev)).await,
        Command::Config(args) => cli::report(cli::config::run(&args, of_command)),
        Command::Run(args) => cli::report(cli::run::run(&cli.connect, &args).await),
        Command::Tail(args) => cli::report(cli::tail::run(&cli.connect, &args).await),
        Command::Fork(args) => cli::report(cli::branches::fork(&cli.connect, &args).await),
        Command::Branches(args) => cli::report(cli::branches::run(&cli.connect, &args).await),
        Command::Queue(args) => cli::report(cli::queue::run(&cli.connect, &args).await),
        Command::Interrupts(args) => cli::report(cli::interrupts::run(&cli.connect, &args).await),
        Command::Answer(args) => cli::report(cli::interrupts::answer(&cli.connect, &args).await),
        Command::Threads(args) => cli::report(cli::threads::run(&cli.connect, &args).await),
        Command::Health(args) => cli::report(cli::health::run(&cli.connect, &args).await),
        Command::Export(args) => cli::report(cli::transfer::export(&cli.connect, &args).await),
        Command::Import(args) => cli::report(cli::transfer::import(&cli.connect, &args).await),
        Command::Keys(args) => cli::report(cli::identity::keys(&cli.connect, &args, &mut std::io::stdout()).await),
        Command::Token(args) => cli::report(cli::identity::token(&cli.connect, &args, &mut std::io::stdout()).await),
        Command::Projects(args) => {
            cli::report(cli::identity::projects(&cli.connect, &args, &mut std::io::stdout()).await)
        }
        Command::Trash(args) => cli::report(cli::trash::run(&cli.connect, &args, &mut std::io::stdout()).await),
        Command::Users(args) => cli::report(cli::identity::users(&cli.connect, &args, &mut std::io::stdout()).await),
        Command::Audit(args) => cli::report(cli::identity::audit(&cli.connect, &args, &mut std::io::stdout()).await),
        Command::Nodes => cli::report(cli::nodes::run(&cli.connect, &mut std::io::stdout()).await),
        Command::Backup(args) => cli::backup::run(&args).await,
        Command::Verify(args) => cli::verify::run(&cli.connect, &args).await,
        Command::VerifyRun(args) => cli::verify_run::run(&cli.connect, &args, &mut std::io::stdout()).await,
        Command::Lineage(args) => cli::report(cli::lineage::run(&args).await),
        Command::Secrets(args) => cli::report(cli::secrets::run(&args, &mut std::io::stdout()).await),
        Command::Migrate(args) => match args.url() {
            Ok(url) => match app::migrate(&url).await {
                Ok(done) => printed(done),
                Err(error) => failed(error, cli::FAILED),
            },
            Err(error) => failed(error, cli::MISUSED),
        },
        Command::Bench(args) => cli::report(cli::bench::run(&args)),
        Command::Openapi => printed(router::openapi_text()),
        Command::Version(args) => cli::report(cli::version::run(&args, &mut std::io::stdout())),
    }
}

/// Writes the output of a command, with a line end.
fn printed(text: impl Display) -> ExitCode {
    cli::report(writeln!(std::io::stdout(), "{text}").map_err(cli::CliError::from))
}

/// Writes an error, on as many lines as it has.
fn failed(error: impl Display, code: u8) -> ExitCode {
    // The exit code is all that is left if stderr is closed.
    drop(writeln!(std::io::stderr(), "error: {error}"));
    ExitCode::from(code)
}

async fn serve(loaded: Result<Configuration, ConfigError>) -> ExitCode {
    let chosen = loaded.and_then(|configuration| Ok((configuration.authentication()?.clone(), configuration)));
    let (authentication, configuration) = match chosen {
        Ok(chosen) => chosen,
        Err(error) => return failed(error, cli::MISUSED),
    };
    let args = &configuration.args;
    telemetry::init(&args.log, args.log_format == LogFormat::Json);
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(files) if files < configuration.limits.connections as u64 => {
            tracing::warn!(files, "low limit of open files: connections beyond it are refused (ulimit -n)");
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "cannot raise the limit of open files"),
    }
    let times = configuration.args.drain_times();
    // Signals are watched before the server is reachable, so that a shutdown cannot be missed.
    let mut signals = Signals::watch();
    let started = tokio::select! {
        started = start(configuration, authentication) => started,
        _ = signals.next() => return ExitCode::SUCCESS,
    };
    match started {
        Ok(app) => {
            let (leave, stop) = (CancellationToken::new(), CancellationToken::new());
            tokio::spawn(watch_signals(signals, leave.clone(), stop.clone()));
            let sound = app.run_until(leave.cancelled_owned(), stop.cancelled_owned(), times).await;
            if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => failed(error, cli::FAILED),
    }
}

async fn start(
    configuration: Configuration,
    authentication: Authentication,
) -> Result<App, Box<dyn std::error::Error>> {
    let Configuration { args, agents, secret_keys, naming_endpoint, limits, origins, .. } = configuration;
    let names = agents.iter().map(|agent| agent.id.to_string());
    let names: Vec<_> = names.chain([DEMO.to_owned()]).collect::<std::collections::BTreeSet<_>>().into_iter().collect();
    let (place, store) = match &args.store {
        Some(url) => (without_secrets(url), StoreChoice::Postgres(url.clone())),
        None => (args.data.display().to_string(), StoreChoice::Sqlite(args.data.clone())),
    };
    let config = ServeConfig {
        listen: resolve(&args.listen).await?,
        admin_listen: match &args.admin_listen {
            Some(address) => Some(resolve(address).await?),
            None => None,
        },
        store,
        redis: args.redis,
        timing: LockTiming {
            ttl: Duration::from_secs(args.lock_ttl_seconds),
            heartbeat: Duration::from_secs(args.lock_heartbeat_interval_seconds),
        },
        lock_key_prefix: args.lock_key_prefix,
        token_leeway: Duration::from_secs(args.token_leeway_seconds),
        authentication,
        secret_keys,
        agents,
        agent_networks: args.allow_agent_networks,
        trusted_proxies: args.trusted_proxies,
        limits,
        origins,
        naming: args.generate_thread_names.then(|| match naming_endpoint {
            Some(endpoint) => TitleSettings::default().with_endpoint(endpoint),
            None => TitleSettings::default(),
        }),
    };
    let redis = config.redis.as_deref().map(|url| format!("\n  redis   {}", without_secrets(url))).unwrap_or_default();
    let app = App::start(config).await?;
    let mode = if app.is_development() {
        "development mode: no authentication, for this machine only"
    } else {
        "authentication required: Authorization: Bearer <THREADLINE_API_KEY>"
    };
    let secrets = app.sealing_key().map_or_else(|| "unsealed".to_owned(), |key| format!("sealed with the key {key}"));
    let url = format!("http://{}", app.local_addr()?);
    let admin = app.admin_addr().map(|address| format!("\n  admin   http://{address}")).unwrap_or_default();
    // The parent process may have closed this output; the server still starts.
    let _ = writeln!(
        std::io::stdout(),
        "Threadline {} is listening on {url}{admin}\n  data    {place}{redis}\n  secrets {secrets}\n  agents  {}\n  mode    {mode}\n  stop    Ctrl-C",
        env!("CARGO_PKG_VERSION"),
        names.join(", "),
    );
    Ok(app)
}

/// Resolves a name to its first address, with preference for IPv4, which more programs can reach.
async fn resolve(listen: &ListenAddress) -> Result<SocketAddr, String> {
    let wrong = |reason: &dyn std::fmt::Display| format!("cannot listen on {listen}: {reason}");
    let addresses =
        tokio::net::lookup_host((listen.host.as_str(), listen.port)).await.map_err(|error| wrong(&error))?;
    addresses.min_by_key(|address| !address.is_ipv4()).ok_or_else(|| wrong(&"the name has no address"))
}

/// Signals that end the program.
struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
}

impl Signals {
    fn watch() -> Self {
        let watch = |kind| signal(kind).map_err(|error| tracing::warn!(%error, "cannot listen for a signal")).ok();
        Self { interrupt: watch(SignalKind::interrupt()), terminate: watch(SignalKind::terminate()) }
    }

    /// Waits for the next signal.
    async fn next(&mut self) -> SignalKind {
        tokio::select! {
            () = received(&mut self.interrupt) => SignalKind::interrupt(),
            () = received(&mut self.terminate) => SignalKind::terminate(),
        }
    }
}

/// Completes with the next such signal; never if it cannot be watched.
async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Cancels `leave` at the first SIGTERM, and `stop` at any signal after it. Ctrl-C comes from a user who waits for the
/// end, so it cancels `stop` at once.
async fn watch_signals(mut signals: Signals, leave: CancellationToken, stop: CancellationToken) {
    if signals.next().await == SignalKind::terminate() {
        leave.cancel();
        signals.next().await;
    }
    stop.cancel();
}
