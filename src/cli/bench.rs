//! `threadline bench`: starts `threadline-bench`, a separate program, since the program that holds users' data needs no
//! code that creates and drops databases.

use std::{env, ffi::OsString, io, os::unix::process::CommandExt, path::PathBuf, process};

use clap::Args;

use super::error::CliError;

/// Name of the benchmark program.
const PROGRAM: &str = "threadline-bench";
/// Variable that passes the version of this program to `threadline-bench`.
const FOR_VERSION: &str = "THREADLINE_BENCH_FOR";

/// Arguments that are passed on to threadline-bench.
#[derive(Debug, Clone, Args)]
#[command(disable_help_flag = true)]
pub struct BenchArgs {
    /// Arguments of threadline-bench; `threadline bench --help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<OsString>,
}

/// Replaces this process with the benchmark program: the one next to this program, else the one in PATH. Returns only
/// if the start fails.
pub fn run(args: &BenchArgs) -> Result<(), CliError> {
    let beside = env::current_exe().ok().map(|own| own.with_file_name(PROGRAM)).filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error =
        process::Command::new(&program).args(&args.arguments).env(FOR_VERSION, env!("CARGO_PKG_VERSION")).exec();
    Err(CliError::Bench(match error.kind() {
        io::ErrorKind::NotFound => format!(
            "{PROGRAM} is neither next to threadline nor in PATH. Build it with `cargo build --release -p {PROGRAM}`, \
             or install the one of the same release"
        ),
        _ => format!("cannot start {}: {error}", program.display()),
    }))
}
