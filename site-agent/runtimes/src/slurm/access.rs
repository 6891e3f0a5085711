//! The two ways to the controller: slurmrestd, and the commands.

use super::request::Request;
use crate::{
    http::{self, PATIENCE, begin},
    runtime::RuntimeError,
    settings::SlurmAccess,
};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::{io::AsyncWriteExt, process::Command, time::timeout};

const SITE: &str = "Slurm";
/// Version of slurmrestd's interface that is spoken.
const VERSION: &str = "v0.0.38";
/// What the controller says of a job that it has forgotten, and of one that is over.
const GONE: [&str; 3] = ["Invalid job id", "already completing or completed", "Job/step already"];

#[derive(Debug)]
pub(super) enum Access {
    Rest(Rest),
    Commands(Commands),
}

impl Access {
    pub(super) fn open(settings: &SlurmAccess) -> Result<Self, RuntimeError> {
        match settings {
            SlurmAccess::Rest { url, user, token_file } => {
                let builder = http::client();
                let (builder, base) = match url.strip_prefix("unix:") {
                    Some(path) => (builder.unix_socket(PathBuf::from(path)), "http://localhost".to_owned()),
                    None => (builder, url.trim_end_matches('/').to_owned()),
                };
                let client = builder.build().map_err(|error| failed("make an HTTP client", &error))?;
                let login = user.clone().zip(token_file.clone());
                Ok(Self::Rest(Rest { client, base: format!("{base}/slurm/{VERSION}"), login }))
            }
            SlurmAccess::Commands { folder, config } => {
                Ok(Self::Commands(Commands { folder: folder.clone(), config: config.clone() }))
            }
        }
    }

    pub(super) async fn jobs(&self) -> Result<Value, RuntimeError> {
        match self {
            Self::Rest(rest) => rest.call(reqwest::Method::GET, "jobs", None).await,
            Self::Commands(commands) => commands.json("squeue", &["--states=all", "--json"]).await,
        }
    }

    pub(super) async fn nodes(&self) -> Result<Value, RuntimeError> {
        match self {
            Self::Rest(rest) => rest.call(reqwest::Method::GET, "nodes", None).await,
            Self::Commands(commands) => commands.json("sinfo", &["--json"]).await,
        }
    }

    /// Gives the job's number.
    pub(super) async fn submit(&self, request: &Request) -> Result<String, RuntimeError> {
        match self {
            Self::Rest(rest) => {
                let answer = rest.call(reqwest::Method::POST, "job/submit", Some(request.body())).await?;
                let id = answer["job_id"].as_u64().filter(|&id| id > 0);
                id.map(|id| id.to_string()).ok_or_else(|| answered("submit a job", answer.to_string()))
            }
            Self::Commands(commands) => {
                let words = request.arguments();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let text = commands.run("sbatch", &words, request.script.as_bytes()).await?;
                // the number, and with several clusters `;` and the cluster
                let id = text.trim().split(';').next().unwrap_or_default();
                let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
                is_number.then(|| id.to_owned()).ok_or_else(|| answered("submit a job", text))
            }
        }
    }

    pub(super) async fn cancel(&self, id: &str) -> Result<(), RuntimeError> {
        let done = match self {
            Self::Rest(rest) => rest.call(reqwest::Method::DELETE, &format!("job/{id}"), None).await.map(drop),
            Self::Commands(commands) => commands.run("scancel", &["--verbose", id], b"").await.map(drop),
        };
        match done {
            Err(RuntimeError::Site { answer, .. }) if GONE.iter().any(|gone| answer.contains(gone)) => Ok(()),
            done => done,
        }
    }
}

#[derive(Debug)]
pub(super) struct Rest {
    client: reqwest::Client,
    base: String,
    /// User, and the file with the token.
    login: Option<(String, PathBuf)>,
}

impl Rest {
    async fn call(&self, method: reqwest::Method, path: &str, body: Option<Value>) -> Result<Value, RuntimeError> {
        let mut request = self.client.request(method, format!("{}/{path}", self.base));
        if let Some((user, file)) = &self.login {
            let token = tokio::fs::read_to_string(file).await;
            let token = token.map_err(|error| answered("read the token of slurmrestd", error.to_string()))?;
            request = request.header("X-SLURM-USER-NAME", user).header("X-SLURM-USER-TOKEN", token.trim());
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.map_err(|error| failed("ask slurmrestd", &error))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|error| failed("read slurmrestd's answer", &error))?;
        let value: Option<Value> = serde_json::from_str(&text).ok();
        let errors = value.as_ref().and_then(|value| value["errors"].as_array()).filter(|errors| !errors.is_empty());
        match (value.as_ref(), errors) {
            (Some(value), None) if status.is_success() => Ok(value.clone()),
            (_, Some(errors)) => {
                let words = errors.iter().flat_map(|e| [e["error"].as_str(), e["description"].as_str()]).flatten();
                Err(answered("ask slurmrestd", begin(&words.collect::<Vec<_>>().join("; "))))
            }
            _ => Err(answered("ask slurmrestd", format!("{status}: {}", begin(&text)))),
        }
    }
}

#[derive(Debug)]
pub(super) struct Commands {
    folder: Option<PathBuf>,
    config: Option<PathBuf>,
}

impl Commands {
    async fn json(&self, program: &str, words: &[&str]) -> Result<Value, RuntimeError> {
        let text = self.run(program, words, b"").await?;
        serde_json::from_str(&text).map_err(|_| answered("read Slurm's answer", begin(&text)))
    }

    async fn run(&self, program: &str, words: &[&str], input: &[u8]) -> Result<String, RuntimeError> {
        let path = self.folder.as_deref().map_or_else(|| PathBuf::from(program), |folder| folder.join(program));
        let mut command = Command::new(&path);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // what is set for people must not change what is asked for
        for (name, _) in std::env::vars_os() {
            if ["SBATCH_", "SQUEUE_", "SINFO_", "SCANCEL_"].iter().any(|p| name.to_string_lossy().starts_with(p)) {
                command.env_remove(name);
            }
        }
        if let Some(config) = &self.config {
            command.env("SLURM_CONF", config);
        }
        let done = async {
            let mut child = command.spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                stdin.write_all(input).await?;
            }
            child.wait_with_output().await
        };
        let done =
            timeout(PATIENCE, done).await.map_err(|_| answered("run", format!("{}: no answer", shown(&path))))?;
        let output = done.map_err(|error| answered("run", format!("{}: {error}", shown(&path))))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(answered("run", begin(&text(&output.stderr))))
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn answered(what: &'static str, answer: String) -> RuntimeError {
    http::answered(SITE, what, answer)
}

fn failed(what: &'static str, error: &reqwest::Error) -> RuntimeError {
    http::failed(SITE, what, error)
}
