//! The reference of the configuration, as Markdown: docs/configuration.md is what this says.

use std::fmt::Write;

use super::{
    API_KEY_VARIABLE, NAMING_KEY_VARIABLE,
    limits::{NODE, QUOTAS},
    setting::{self, Setting},
};
use crate::domain::limits::MIN_OPERATOR_KEY_CHARS;

const INTRODUCTION: &str = "\
# Configuration

This page is made by `threadline config --reference` from the definitions in `src/config`.

Nothing has to be configured. What is, is taken from the flag, else from the environment variable, else from the
configuration file, else it is the default. A variable that is empty counts as not set, but for
`THREADLINE_API_KEY` and `THREADLINE_API_KEY_FILE`: set and blank they are an error. `threadline config` shows the effective configuration, each value with where
it comes from; it takes the same flags as `threadline serve`. `threadline config --check` only checks it.

The file is TOML, named by `--config FILE` or `THREADLINE_CONFIG`. A key that is not known is an error.

```toml
listen = \"127.0.0.1:7420\"
allowed_origins = [\"https://app.example.com\"]

[limits]
user_requests_per_second = 50

[agents.trips]
url = \"http://127.0.0.1:8000/\"
```

Keys and passwords do not belong into flags, which other users of the machine can see.
";

const AGENTS: &str = "
## Agents

An AG-UI endpoint needs only its address: `--agent NAME=URL`, which may be given several times. In the file each agent is a
table `[agents.NAME]`:

| key | of which kind | what it is |
|---|---|---|
| `kind` | | `ag-ui` (if left out), `openai` or `demo` |
| `url` | ag-ui | where runs are sent |
| `headers` | ag-ui | header fields sent with each run, like `{ Authorization = \"Bearer …\" }` |
| `base_url` | openai | the address up to `/chat/completions` |
| `model` | openai | the model asked for |
| `api_key`, or `api_key_env` | openai | the key, or the variable that holds it |
| `instructions` | openai | a system message before the conversation |
| `on_disconnect` | | `continue` (if left out) or `stop`: what becomes of a run whose requester goes away |
| `idle_timeout_seconds` | | longest silence; 120 if left out |
| `names_threads` | ag-ui, openai | `true` if it may be asked for names of its threads, beside their runs ([names.md](names.md)) |
";

const LIMITS: &str = "
What is beyond a limit is answered 429 with `Retry-After`, and with the name and the value of the limit in the problem document.
On a socket nothing is refused for its rate: it is read no faster than the limits allow, and so is a streamed run.

- **Whom they hold for.** An end user who comes with a token is a stranger: the limits of users hold for each of them, and
  those of projects for all of a project together. An API key is trusted: only the project's limits hold. In development mode
  nobody is known, and only what is set on purpose holds.
- **Per node.** Each node counts for itself, so N nodes allow up to N times as much. Runs alone are counted in the store, for
  all nodes together; starts at the same moment may pass the limit by as many as they are.
- **Projects** can have limits of their own in their settings, under the same names in the form `userRequestsPerSecond`.
- **Bytes** are counted as they were sent, once they have arrived: a batch larger than the burst passes if nothing is owed, and
  what comes next waits until it is made good. What agents send is not counted; their runs are.
";

/// The whole page.
pub fn reference() -> String {
    let mut out = String::from(INTRODUCTION);
    let settings = setting::all();
    let under = |heading: Option<&'static str>| settings.iter().filter(move |it| it.arg.get_help_heading() == heading);
    out.push_str("\n## Settings\n\n");
    table(&mut out, under(None));
    let _ = writeln!(
        out,
        "| | | `{API_KEY_VARIABLE}` | none: development mode | The key of the operator, who may do everything; at least {MIN_OPERATOR_KEY_CHARS} characters. Set and blank it is an error |\n\
         | | | `{NAMING_KEY_VARIABLE}` | none | The key of the endpoint for names of threads |\n\
         | | `--config` | `THREADLINE_CONFIG` | none | The configuration file |"
    );
    out.push_str(AGENTS);
    let _ = write!(out, "\n## {NODE}\n\nThese stand in the table `[limits]` of the file.\n\n");
    table(&mut out, under(Some(NODE)));
    let _ = writeln!(out, "\n## {QUOTAS}\n\nThese stand in the table `[limits]` of the file.\n{LIMITS}");
    table(&mut out, under(Some(QUOTAS)));
    out
}

fn table<'a>(out: &mut String, settings: impl Iterator<Item = &'a Setting>) {
    out.push_str("| in the file | flag | variable | default | what it is |\n|---|---|---|---|---|\n");
    for setting in settings {
        let default = match setting.default() {
            Some(default) if default == "0" && setting.flag().starts_with("limit-") => "0".to_owned(),
            Some(default) => format!("`{default}`"),
            None => "none".to_owned(),
        };
        let help = setting.arg.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(
            out,
            "| `{}` | `--{}` | `{}` | {default} | {} |",
            setting.name,
            setting.flag(),
            setting.variable().unwrap_or_default(),
            help.replace('|', "\\|").replace('\n', " "),
        );
    }
}
