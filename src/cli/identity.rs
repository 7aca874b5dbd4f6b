//! `threadline keys`, `token`, `projects`, `users` and `audit`: the administration of a project.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    pin::pin,
};

use clap::{Args, Subcommand, builder::RangedU64ValueParser};
use serde_json::{Value, json};
use threadline_client::Client;
use threadline_core::limits::{AUDIT_POLL, DEFAULT_PAGE, MAX_PAGE};

use super::{
    connect::ConnectArgs,
    error::CliError,
    following::ctrl_c,
    output::{note, shown},
};

/// Administration of a project's API keys.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  threadline keys create backend                            Prints the key, once
  threadline keys create board --scopes read --days 30
  threadline keys list
  threadline keys revoke backend                            Ends all tokens that it has created as well
  threadline keys revoke ci --and-made                      And the keys that were created with it
  threadline keys sign-out backend                          Ends its tokens; the key stays valid
  threadline --project acme keys create backend             In another project, with the operator's key

Scopes: read, chat, approve, produce, agents, tokens (these six if none are named), admin, metrics.")]
pub struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum KeysCommand {
    /// Create a key and print it: it is shown only once
    Create {
        /// ID of the key [default: generated]
        key_id: Option<String>,
        /// Scopes of the key, separated by commas
        #[arg(long, value_delimiter = ',', value_name = "SCOPE")]
        scopes: Option<Vec<String>>,
        /// Days until the key expires [default: never]
        #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..=36_500))]
        days: Option<u64>,
    },
    /// List the keys, without the keys themselves
    List,
    /// Revoke a key, end the tokens that it has created, and close their sockets and streams
    Revoke {
        /// ID of the key
        key_id: String,
        /// Also revoke the keys that were created with it, and with those
        #[arg(long)]
        and_made: bool,
    },
    /// End the tokens that a key has created; the key stays valid
    SignOut {
        /// ID of the key
        key_id: String,
    },
}

/// Properties of a new token.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  threadline token alice                     A token with which a browser acts as alice for an hour
  threadline token alice --scopes read --minutes 10")]
pub struct TokenArgs {
    /// The user
    user_id: String,
    /// Scopes of the token, separated by commas: read, chat, approve, produce [default: the project's tokenScopes, else all but produce]
    #[arg(long, value_delimiter = ',', value_name = "SCOPE")]
    scopes: Option<Vec<String>>,
    /// Minutes until the token expires
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = RangedU64ValueParser::<u64>::new().range(1..=43_200))]
    minutes: u64,
}

/// Administration of projects, by the operator.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  threadline projects list
  threadline projects set acme settings.json         Creates it, or replaces its settings; `-` reads stdin
  echo '{\"retention\":{\"deleteAfterDays\":90}}' | threadline projects set default -
  threadline projects renew-secret acme              A new secret for its users' tokens; the previous one stays valid")]
pub struct ProjectsArgs {
    #[command(subcommand)]
    command: ProjectsCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum ProjectsCommand {
    /// List the projects
    List,
    /// Show a project
    Show {
        /// ID of the project
        project_id: String,
    },
    /// Create a project, or replace its settings (JSON: issuer, retention, limits, tokenScopes, maxTokenSeconds, agentOrigins, auditDays)
    Set {
        /// ID of the project
        project_id: String,
        /// File with the settings; `-` is stdin [default: all defaults]
        settings: Option<PathBuf>,
    },
    /// Approve that retention, which waits for it, puts threads in the trash
    ApproveRetention {
        /// ID of the project
        project_id: String,
        /// Most threads that may be put in the trash
        #[arg(value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
        count: u64,
    },
    /// Sign out all users of a project: their tokens end, and their sockets and streams are closed
    SignOut {
        /// ID of the project
        project_id: String,
    },
    /// Rotate the secret of a project's user tokens, and print it: it is shown only once
    RenewSecret {
        /// ID of the project
        project_id: String,
    },
}

/// Administration of a project's users.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  threadline users sign-out alice            After a theft: all tokens end; backends sign the user in again
  threadline users erase alice --yes")]
pub struct UsersArgs {
    #[command(subcommand)]
    command: UsersCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum UsersCommand {
    /// Sign a user out: the user's tokens end, and sockets and streams are closed
    SignOut {
        /// ID of the user
        user_id: String,
    },
    /// Erase a user: threads with logs, runs, names, snapshots and annotations, and the feed; prints the receipt
    Erase {
        /// ID of the user
        user_id: String,
        /// Required: the data cannot be restored
        #[arg(long, required = true)]
        yes: bool,
    },
}

/// Part of the audit log that is shown.
#[derive(Debug, Clone, Args)]
pub struct AuditArgs {
    /// Maximum number of entries, the newest first
    #[arg(long, value_name = "N", default_value_t = DEFAULT_PAGE, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    limit: usize,
    /// Show new entries, 5 seconds after they were written
    #[arg(long, conflicts_with = "limit")]
    follow: bool,
    /// With --follow: begin after the entry with this number [default: only new entries]
    #[arg(long, value_name = "NUMBER", requires = "follow")]
    after: Option<i64>,
}

pub async fn keys(connect: &ConnectArgs, args: &KeysArgs, out: &mut impl Write) -> Result<(), CliError> {
    let client = connect.client()?;
    match &args.command {
        KeysCommand::Create { key_id, scopes, days } => {
            let mut body = json!({ "expiresInSeconds": days.map(|days| days * 24 * 3_600) });
            for (name, value) in [("keyId", json!(key_id)), ("scopes", json!(scopes))] {
                if !value.is_null() {
                    body[name] = value;
                }
            }
            let made = client.create_key(&body).await?;
            writeln!(out, "{}", text(&made["key"]))?;
            note(&format!("{}: store it now, it is not shown again", text(&made["keyId"])));
        }
        KeysCommand::List => {
            let found = client.keys().await?;
            for key in found["keys"].as_array().into_iter().flatten() {
                let scopes: Vec<_> = key["scopes"].as_array().into_iter().flatten().map(text).collect();
                let state = match (key["revokedAt"].as_str(), key["expiresAt"].as_str()) {
                    (Some(at), _) => format!("revoked {at}"),
                    (None, Some(at)) => format!("until {at}"),
                    (None, None) => "valid".to_owned(),
                };
                let born = if key["born"] == "development" { "  development mode" } else { "" };
                let (id, created) = (text(&key["keyId"]), text(&key["createdAt"]));
                let made_by = key["madeBy"].as_str().map(|by| format!("  made by {}", shown(by, usize::MAX)));
                let used = key["lastUsedAt"].as_str().map_or("never used".to_owned(), |at| format!("last used {at}"));
                let made_by = made_by.unwrap_or_default();
                writeln!(out, "{id}  {}  {created}  {state}  {used}{made_by}{born}", scopes.join(","))?;
            }
        }
        KeysCommand::Revoke { key_id, and_made } => {
            let key = client.revoke_key(key_id, *and_made).await?;
            writeln!(out, "{} revoked {}", text(&key["keyId"]), text(&key["revokedAt"]))?;
            let names = |name: &str| key[name].as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
            for made in names("alsoRevoked") {
                writeln!(out, "{made} revoked")?;
            }
            let valid = names("stillValid");
            if !valid.is_empty() {
                let names = valid.join(", ");
                note(&format!("created with this key, and still valid: {names}; revoke them as well with --and-made"));
            }
        }
        KeysCommand::SignOut { key_id } => signed_out(out, &client.sign_out_key(key_id).await?)?,
    }
    Ok(())
}

pub async fn token(connect: &ConnectArgs, args: &TokenArgs, out: &mut impl Write) -> Result<(), CliError> {
    let mut body = json!({ "userId": args.user_id, "expiresInSeconds": args.minutes * 60 });
    if let Some(scopes) = &args.scopes {
        body["scopes"] = json!(scopes);
    }
    let made = connect.client()?.create_token(&body).await?;
    writeln!(out, "{}", text(&made["token"]))?;
    Ok(())
}

pub async fn projects(connect: &ConnectArgs, args: &ProjectsArgs, out: &mut impl Write) -> Result<(), CliError> {
    let client = connect.client()?;
    match &args.command {
        ProjectsCommand::List => {
            for project in client.projects().await?["projects"].as_array().into_iter().flatten() {
                writeln!(out, "{}  {}", text(&project["projectId"]), project["settings"])?;
            }
        }
        ProjectsCommand::Show { project_id } => document(out, &client.project(project_id).await?)?,
        ProjectsCommand::Set { project_id, settings } => {
            let written = match settings {
                Some(path) if path.as_os_str() == "-" => io::read_to_string(io::stdin())?,
                Some(path) => fs::read_to_string(path)?,
                None => "{}".to_owned(),
            };
            let settings: Value = serde_json::from_str(&written).map_err(io::Error::from)?;
            document(out, &client.put_project(project_id, &settings).await?)?;
        }
        ProjectsCommand::ApproveRetention { project_id, count } => {
            document(out, &client.approve_retention(project_id, *count).await?)?;
        }
        ProjectsCommand::SignOut { project_id } => signed_out(out, &client.sign_out_project(project_id).await?)?,
        ProjectsCommand::RenewSecret { project_id } => {
            writeln!(out, "{}", text(&client.renew_token_secret(project_id).await?["secret"]))?;
            note(
                "store it now, it is not shown again; tokens signed with the previous secret stay valid until the next rotation",
            );
        }
    }
    Ok(())
}

pub async fn users(connect: &ConnectArgs, args: &UsersArgs, out: &mut impl Write) -> Result<(), CliError> {
    let client = connect.client()?;
    match &args.command {
        UsersCommand::SignOut { user_id } => signed_out(out, &client.sign_out_user(user_id).await?)?,
        UsersCommand::Erase { user_id, .. } => document(out, &client.erase_user(user_id).await?)?,
    }
    Ok(())
}

fn signed_out(out: &mut impl Write, answer: &Value) -> io::Result<()> {
    writeln!(out, "tokens that were issued before {} have ended", text(&answer["notBefore"]))
}

fn show_entry(out: &mut impl Write, entry: &Value) -> io::Result<()> {
    let [at, actor, action] = ["at", "actor", "action"].map(|name| text(&entry[name]));
    writeln!(out, "{at}  {actor}  {action}  {}", shown(&entry["facts"].to_string(), usize::MAX))
}

/// Shows the entries after a number, and new ones, until the user presses Ctrl-C.
async fn follow(client: &Client, after: Option<i64>, out: &mut impl Write) -> Result<(), CliError> {
    let mut after = match after {
        Some(after) => after,
        None => client.audit(1, None).await?["entries"][0]["number"].as_i64().unwrap_or(0),
    };
    let mut interrupted = pin!(ctrl_c());
    loop {
        let full = match client.audit_after(after, MAX_PAGE).await {
            Ok(page) => {
                let entries = page["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
                for entry in entries {
                    show_entry(out, entry)?;
                    after = entry["number"].as_i64().unwrap_or(after);
                }
                entries.len() >= MAX_PAGE
            }
            Err(error) if error.is_retryable() => {
                note(&format!("{error}; retrying"));
                false
            }
            Err(error) => return Err(error.into()),
        };
        out.flush()?;
        if full {
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(AUDIT_POLL) => {}
            () = interrupted.as_mut() => return Ok(()),
        }
    }
}

/// Runs `threadline audit`: reads pages until `--limit` entries are shown or none are left, or follows the log.
pub async fn audit(connect: &ConnectArgs, args: &AuditArgs, out: &mut impl Write) -> Result<(), CliError> {
    let client = connect.client()?;
    if args.follow {
        return follow(&client, args.after, out).await;
    }
    let (mut left, mut cursor) = (args.limit, None::<String>);
    loop {
        let page = client.audit(left.min(MAX_PAGE), cursor.as_deref()).await?;
        let entries = page["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        for entry in entries {
            show_entry(out, entry)?;
        }
        left = left.saturating_sub(entries.len());
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if left == 0 || cursor.is_none() {
            return Ok(());
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().map(|text| shown(text, usize::MAX)).unwrap_or_default()
}

fn document(out: &mut impl Write, value: &Value) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}
