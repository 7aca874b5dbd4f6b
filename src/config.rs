//! The configuration file (TOML): the agents, for now.
//!
//! ```toml
//! [agents.trips]
//! url = "http://127.0.0.1:8000/"
//! headers = { Authorization = "Bearer …" }
//! on_disconnect = "stop"
//!
//! [agents.chat]
//! kind = "openai"
//! base_url = "https://api.example.com/v1"
//! model = "some-model"
//! api_key_env = "CHAT_API_KEY"
//! ```

use std::{collections::BTreeMap, fs, io, path::PathBuf};

use serde::Deserialize;

use crate::{
    agents::Definition,
    domain::{AgentId, IdError, agent::Agent},
};

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {1}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The file is not what is expected in this line, which is not shown: it may hold a key.
    #[error("the configuration {path}, line {1}, is not what is expected: {2}", path = .0.display())]
    Parse(PathBuf, usize, String),
    /// An agent's name cannot be one.
    #[error("{0:?} cannot be the name of an agent: {1}")]
    Name(String, #[source] IdError),
    /// An agent is named by two flags.
    #[error("--agent names {0:?} twice")]
    Twice(String),
    /// An agent is not complete or contradicts itself.
    #[error("the agent {0}: {1}")]
    Agent(AgentId, String),
}

fn line(text: &str, error: &toml::de::Error) -> usize {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    1 + before.matches('\n').count()
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    #[serde(default)]
    agents: BTreeMap<String, Definition>,
}

/// The agents of the file, if there is one, and of the command line, which wins: `(name, url)` of AG-UI endpoints.
pub fn agents(file: Option<&PathBuf>, named: &[(String, String)]) -> Result<Vec<Agent>, ConfigError> {
    let mut found = BTreeMap::new();
    if let Some(path) = file {
        let text = fs::read_to_string(path).map_err(|error| ConfigError::Read(path.clone(), error))?;
        let parsed: ConfigFile = toml::from_str(&text)
            .map_err(|error| ConfigError::Parse(path.clone(), line(&text, &error), error.message().to_owned()))?;
        found = parsed.agents;
    }
    let mut flags = BTreeMap::new();
    for (name, url) in named {
        if flags.insert(name.clone(), Definition::ag_ui(url)).is_some() {
            return Err(ConfigError::Twice(name.clone()));
        }
    }
    found.extend(flags);
    let mut agents = Vec::with_capacity(found.len());
    for (name, definition) in found {
        let id = AgentId::new(&name).map_err(|error| ConfigError::Name(name, error))?;
        let agent = definition.into_agent(id.clone(), |variable| std::env::var(variable).ok());
        agents.push(agent.map_err(|wrong| ConfigError::Agent(id, wrong))?);
    }
    Ok(agents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Result<Vec<Agent>, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("threadline.toml");
        fs::write(&path, text).expect("written");
        agents(Some(&path), &[("flag".into(), "http://127.0.0.1:9/".into())]).map_err(|error| error.to_string())
    }

    #[test]
    fn the_file_and_the_flags_name_agents() {
        let agents = written(
            "[agents.trips]\nurl = \"http://x/\"\nheaders = { A = \"b\" }\non_disconnect = \"stop\"\n\
             [agents.flag]\nurl = \"http://overridden/\"\n\
             [agents.chat]\nkind = \"openai\"\nbase_url = \"http://x/v1\"\nmodel = \"m\"\n",
        );
        let names: Vec<_> = agents.expect("agents").into_iter().map(|agent| agent.id.to_string()).collect();
        assert_eq!(names, ["chat", "flag", "trips"]);
        assert!(super::agents(None, &[]).is_ok_and(|agents| agents.is_empty()));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, what) in [
            ("[agents.a]\n", "url is missing"),
            ("[agent.a]\n", "unknown field"),
            ("[agents.a]\nurl = 7\n", "line 2"),
            ("[agents.\"\"]\nurl = \"http://x\"\n", "must not be empty"),
            (
                "[agents.a]\nkind = \"openai\"\nbase_url = \"http://x\"\nmodel = \"m\"\napi_key_env = \"NO_SUCH_VARIABLE_HERE\"\n",
                "no variable",
            ),
        ] {
            let error = written(text).expect_err(text);
            assert!(error.contains(what), "{text}: {error}");
        }
        let error =
            written("[agents.a]\nurl = \"http://x\"\nheaders = { A = \"s3cret\", B = 5 }\n").expect_err("not a text");
        assert!(error.contains("line 3") && !error.contains("s3cret"), "{error}");
        let twice = [("a".to_owned(), "http://x".to_owned()), ("a".to_owned(), "http://y".to_owned())];
        assert!(agents(None, &twice).is_err_and(|error| error.to_string().contains("twice")));
        let missing = PathBuf::from("/nowhere/threadline.toml");
        assert!(agents(Some(&missing), &[]).is_err_and(|error| error.to_string().contains("/nowhere")));
    }
}
