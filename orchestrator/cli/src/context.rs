//! Which server to ask, and as whom.

use crate::exit::CliError;
use rhumb_model::document;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Where the orchestrator listens unless it was told otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:7070";
/// Where `rhumb demo` keeps its data unless it was told otherwise.
pub const DEFAULT_DATA: &str = "rhumb-data";
/// The file in a demo's folder that says how to ask it.
pub const CONTEXT_FILE: &str = "context.yaml";

/// A server and a credential for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// A file that holds the token, in place of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
}

/// `$XDG_CONFIG_HOME/rhumb/config.yaml`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Contexts {
    /// Taken where nothing else names a server.
    current: Option<String>,
    contexts: BTreeMap<String, Context>,
}

/// What the command line and the environment say.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    pub context: Option<String>,
    pub url: Option<String>,
    pub token: Option<String>,
    /// `config.yaml` with contexts, and the folder of a demo, where they are.
    pub config: Option<PathBuf>,
    pub demo: PathBuf,
}

impl Asked {
    /// `url` is that of the command line, which goes before the environment's.
    pub fn new(context: Option<String>, url: Option<String>) -> Self {
        let set = |name| std::env::var(name).ok().filter(|v| !v.is_empty());
        let home =
            set("XDG_CONFIG_HOME").map(PathBuf::from).or_else(|| Some(PathBuf::from(set("HOME")?).join(".config")));
        Self {
            context,
            url: url.or_else(|| set("RHUMB_URL")),
            token: set("RHUMB_TOKEN"),
            config: home.map(|h| h.join("rhumb").join("config.yaml")),
            demo: PathBuf::from(DEFAULT_DATA),
        }
    }

    /// `--context`, else URL and token as set, else the current context, else the demo of this folder.
    pub fn server(self) -> Result<Context, CliError> {
        let known = contexts(self.config.as_deref())?;
        let named = |name: &str| {
            let names: Vec<_> = known.contexts.keys().map(String::as_str).collect();
            let remedy =
                if names.is_empty() { "there are none".to_owned() } else { format!("known are {}", names.join(", ")) };
            let file = self.config.as_ref().map_or_else(String::new, |f| format!(" in {}", f.display()));
            let missing = || CliError::Usage(format!("context {name} does not exist{file}: {remedy}"));
            known.contexts.get(name).cloned().ok_or_else(missing)?.with_token()
        };
        if let Some(name) = &self.context {
            return named(name);
        }
        let Some(url) = self.url else {
            let found = match &known.current {
                Some(current) => named(current)?,
                None => demo(&self.demo)?.unwrap_or_else(|| Context::at(DEFAULT_URL)),
            };
            return Ok(Context { token: self.token.or(found.token), ..found });
        };
        let url = trimmed(&url);
        if self.token.is_some() {
            return Ok(Context { token: self.token, ..Context::at(&url) });
        }
        let same = |c: &Context| trimmed(&c.url) == url;
        match demo(&self.demo)?.filter(same) {
            Some(demo) => Ok(demo),
            None => match known.contexts.values().find(|c| same(c)) {
                Some(context) => context.clone().with_token(),
                None => Ok(Context::at(&url)),
            },
        }
    }
}

impl Context {
    fn at(url: &str) -> Self {
        Self { url: url.to_owned(), token: None, token_file: None }
    }

    fn with_token(self) -> Result<Self, CliError> {
        let Some(path) = &self.token_file else { return Ok(self) };
        let text = crate::files::text(path, 4_096)?;
        Ok(Self { token: Some(text.trim().to_owned()), ..self })
    }
}

fn trimmed(url: &str) -> String {
    url.trim().trim_end_matches('/').replace("://localhost", "://127.0.0.1")
}

fn contexts(path: Option<&Path>) -> Result<Contexts, CliError> {
    match path.filter(|p| p.exists()) {
        Some(path) => crate::files::read(path),
        None => Ok(Contexts::default()),
    }
}

/// The context of the demo whose data folder this is.
fn demo(folder: &Path) -> Result<Option<Context>, CliError> {
    let path = folder.join(CONTEXT_FILE);
    // another user's demo is none of ours
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(None) };
    let context: Context = document::read(&text)
        .map_err(|e| CliError::Usage(format!("the context in {} is not valid: {e}", folder.display())))?;
    Ok(Some(context.with_token()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        folder: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
            std::fs::create_dir(folder.path().join("demo")).unwrap();
            write("config.yaml", "contexts:\n  prod: {url: 'https://rhumb.example', token: of-prod}\n");
            write("demo/context.yaml", "url: http://127.0.0.1:7070\ntoken: of-demo\n");
            Self { folder }
        }

        fn ask(
            &self,
            context: Option<&str>,
            url: Option<&str>,
            token: Option<&str>,
        ) -> Result<(String, Option<String>), CliError> {
            let asked = Asked {
                context: context.map(str::to_owned),
                url: url.map(str::to_owned),
                token: token.map(str::to_owned),
                config: Some(self.folder.path().join("config.yaml")),
                demo: self.folder.path().join("demo"),
            };
            asked.server().map(|c| (c.url, c.token))
        }
    }

    fn pair(url: &str, token: &str) -> (String, Option<String>) {
        (url.to_owned(), Some(token.to_owned()).filter(|t| !t.is_empty()))
    }

    #[test]
    fn the_nearest_word_counts() {
        let world = World::new();
        let demo = pair("http://127.0.0.1:7070", "of-demo");
        assert_eq!(world.ask(None, None, None).unwrap(), demo);
        assert_eq!(world.ask(None, Some("http://localhost:7070/"), None).unwrap(), demo);
        assert_eq!(world.ask(None, None, Some("mine")).unwrap(), pair("http://127.0.0.1:7070", "mine"));
        assert_eq!(world.ask(Some("prod"), None, Some("mine")).unwrap(), pair("https://rhumb.example", "of-prod"));
        assert_eq!(
            world.ask(None, Some("https://rhumb.example"), None).unwrap(),
            pair("https://rhumb.example", "of-prod")
        );
        assert_eq!(world.ask(None, Some("http://10.0.0.1:1"), None).unwrap(), pair("http://10.0.0.1:1", ""));
    }

    #[test]
    fn the_demos_token_goes_to_the_demo_alone() {
        let world = World::new();
        assert_eq!(world.ask(None, Some("http://127.0.0.1:9999"), None).unwrap().1, None);
    }

    #[test]
    fn an_unknown_context_is_wrong_usage_and_the_known_are_named() {
        let error = World::new().ask(Some("prdo"), None, None).unwrap_err();
        assert!(matches!(&error, CliError::Usage(m) if m.contains("prod")), "{error}");
    }
}
