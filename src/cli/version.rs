//! `threadline version`: the version, and the bill of materials.

use std::io::Write;

use clap::Args;

use super::error::CliError;

/// Bill of materials, made from the lock files by `scripts/sbom.py`, which `make lint` compares.
const SBOM: &str = include_str!("../../supply/threadline.cdx.json");

/// Requested part of the output.
#[derive(Debug, Clone, Args)]
pub struct VersionArgs {
    /// Print the software bill of materials (CycloneDX, JSON): every package that this program contains or was built with
    #[arg(long)]
    pub sbom: bool,
}

/// Prints the version, or the bill of materials as it is in the repository.
pub fn run(args: &VersionArgs, out: &mut impl Write) -> Result<(), CliError> {
    match args.sbom {
        true => out.write_all(SBOM.as_bytes())?,
        false => writeln!(out, "threadline {}", env!("CARGO_PKG_VERSION"))?,
    }
    Ok(())
}
