//! `threadline secrets`: the keys under which the secrets of a store are sealed.

use std::{collections::BTreeSet, io::Write};

use clap::{Args, Subcommand};
use serde_json::json;
use threadline_core::{AuditEntry, ProjectId, Timestamp};
use threadline_store::{SecretAccess, SecretForm, SecretName, StoredProject, TransferStore};

use super::{
    error::CliError,
    transfer::{PlaceArgs, SecretKeyArgs},
};
use crate::{
    app::{CommandStore, MissingData, StoreChoice},
    transfer::projects::sign_out,
};

/// Operation on the secrets of a store.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Secrets are those that sign the tokens of projects, and the definitions of agents created over the API, which have keys. They are
sealed with the first key of the key file; all its keys open them.

To change the key: add a line `id:key` at the end of the file of every node and restart them; move the line to the top and restart
them; run `reseal`; remove the old line. With a data directory: put the new line at the top, and start the server.
If the key is lost: `renew` makes new secrets. The tokens of users end, and agents have to be created again.

Examples:
  echo \"k2:$(openssl rand -base64 32)\" >> /etc/threadline/secret.key
  THREADLINE_STORE=postgres://… threadline secrets reseal --secret-key-file /etc/threadline/secret.key
  threadline secrets renew --yes --data restored/")]
pub struct SecretsArgs {
    #[command(subcommand)]
    operation: Operation,
}

#[derive(Debug, Clone, Subcommand)]
enum Operation {
    /// Seal all secrets with the first key of the key file; on Postgres also while servers run
    Reseal(KeyedPlaceArgs),
    /// Replace the secrets that no key of the key file opens
    Renew {
        /// Store with the secrets, and its keys.
        #[command(flatten)]
        place: KeyedPlaceArgs,
        /// Required: tokens signed with the lost secrets end, and agents whose definitions are lost are removed
        #[arg(long, required = true)]
        yes: bool,
    },
}

/// A store and its keys.
#[derive(Debug, Clone, Args)]
struct KeyedPlaceArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    keys: SecretKeyArgs,
}

/// Runs `threadline secrets reseal` or `threadline secrets renew`.
pub async fn run(args: &SecretsArgs, out: &mut impl Write) -> Result<(), CliError> {
    let (KeyedPlaceArgs { place, keys }, renewal) = match &args.operation {
        Operation::Reseal(place) => (place, false),
        Operation::Renew { place, .. } => (place, true),
    };
    let (choice, keys) = (place.choice()?, keys.keys()?);
    if keys.is_none() && matches!(choice, StoreChoice::Postgres(_)) {
        return Err(CliError::Transfer(
            "a database has no keys of its own: name the file with --secret-key-file".into(),
        ));
    }
    let access = if renewal { SecretAccess::Renewal(keys) } else { SecretAccess::Keys(keys) };
    let opened = CommandStore::open(&choice, MissingData::Refuse, access).await.map_err(told)?;
    let store = opened.store();
    let done = match renewal {
        true => renew(store.as_ref(), out).await,
        false => reseal(store.as_ref(), out).await,
    };
    opened.close().await;
    done
}

async fn reseal(store: &dyn TransferStore, out: &mut impl Write) -> Result<(), CliError> {
    store.reseal().await.map_err(told)?;
    let forms = store.secret_forms().await.map_err(told)?;
    let lost = forms.iter().filter(|(_, form)| *form != SecretForm::Sealed).count();
    let key = store.sealing_key().unwrap_or_default();
    writeln!(out, "{} secrets are sealed with the key {key}", forms.len() - lost)?;
    match lost {
        0 => Ok(()),
        lost => Err(CliError::Transfer(format!(
            "{lost} secrets are sealed with other keys, which the key file does not have: add their lines, or run \
             threadline secrets renew"
        ))),
    }
}

async fn renew(store: &dyn TransferStore, out: &mut impl Write) -> Result<(), CliError> {
    store.reseal().await.map_err(told)?;
    let forms = store.secret_forms().await.map_err(told)?;
    let projects = store.projects().await.map_err(told)?;
    let entry = |project: &ProjectId, facts| AuditEntry {
        project: project.clone(),
        at: store.clock().now(),
        actor: "operator".to_owned(),
        action: "secrets.renewed".to_owned(),
        facts,
    };
    // The subjects of earlier sign-outs may be lost with the root of digests, so their projects are signed out.
    let cutoffs = store.cutoffs(Timestamp(i64::MIN)).await.map_err(told)?;
    for project in cutoffs.into_iter().map(|cutoff| cutoff.project).collect::<BTreeSet<_>>() {
        sign_out(store, &project, store.clock().now(), "operator").await.map_err(told)?;
        writeln!(out, "project {project}: its users are signed out")?;
    }
    for (name, _) in forms.into_iter().filter(|(_, form)| *form == SecretForm::Unopened) {
        match name {
            // A root that no key opens was replaced when the store was opened.
            SecretName::Root => {}
            SecretName::Project(id) => {
                let Some(project) = projects.iter().find(|project| project.id == id) else { continue };
                let secret = threadline_secrets::generate().map_err(told)?;
                let secrets = Some(json!([secret]).to_string());
                let renewed = StoredProject { version: project.version + 1, secrets, ..project.clone() };
                let entry = entry(&id, json!({ "tokens": true }).to_string());
                if !store.put_project(&renewed, Some(&entry)).await.map_err(told)? {
                    return Err(told(format!("the project {id} was changed meanwhile: run the command again")));
                }
                writeln!(out, "project {id}: new secret, all tokens of its users end")?;
            }
            SecretName::Agent(project, id) => {
                let entry = entry(&project, json!({ "removedAgent": id.as_str() }).to_string());
                store.record(&entry).await.map_err(told)?;
                store.delete_agent(&project, &id, None).await.map_err(told)?;
                writeln!(out, "agent {id} of project {project}: removed, create it again")?;
            }
        }
    }
    writeln!(out, "all secrets are sealed with the key {}", store.sealing_key().unwrap_or_default())?;
    Ok(())
}

fn told(error: impl std::fmt::Display) -> CliError {
    CliError::Transfer(error.to_string())
}
