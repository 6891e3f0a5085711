//! The `ray` runtime: jobs of a Ray cluster, through the dashboard's job interface.
//!
//! Ray knows no users: whoever may submit jobs may also claim to be this agent. It starts one process for each job, so a gang is
//! several jobs, submitted together once all of it is asked for; whether they start together Ray does not promise.

mod answers;

use crate::{
    batch::{Batch, Controller, Ground, Snapshot, Submission},
    http,
    runtime::{RuntimeError, Work},
    settings::RaySettings,
    shell::quoted,
    supervisor::SUPERVISE,
};
use reqwest::Method;
use serde_json::{Value, json};

pub(crate) type RayRuntime = Batch<Ray>;

/// How much of a node's own resource a job takes to be put there.
const PIN: f64 = 0.001;
const SITE: &str = "Ray";

/// The head's dashboard.
#[derive(Debug)]
pub(crate) struct Ray {
    client: reqwest::Client,
    settings: RaySettings,
}

impl Ray {
    pub(crate) fn runtime(ground: Ground, settings: &RaySettings) -> Result<RayRuntime, RuntimeError> {
        let client = http::client().build().map_err(|error| http::failed(SITE, "make an HTTP client", &error))?;
        Ok(Batch::new(ground, Self { client, settings: settings.clone() }))
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, RuntimeError> {
        let mut request = self.client.request(method, format!("{}{path}", self.settings.url.trim_end_matches('/')));
        if let Some(file) = &self.settings.token_file {
            let token = tokio::fs::read_to_string(file).await;
            let token = token.map_err(|error| http::answered(SITE, "read the token of Ray", error.to_string()))?;
            request = request.bearer_auth(token.trim());
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.map_err(|error| http::failed(SITE, "ask Ray", &error))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|error| http::failed(SITE, "read Ray's answer", &error))?;
        if status.is_success() {
            return serde_json::from_str(&text)
                .map_err(|_| http::answered(SITE, "read Ray's answer", http::begin(&text)));
        }
        // the last line of its trace says what is wrong
        let word = text.trim().lines().rfind(|line| line.len() > 2).unwrap_or_default();
        Err(http::answered(SITE, "ask Ray", format!("{status}: {}", http::begin(word))))
    }

    async fn nodes(&self) -> Result<Value, RuntimeError> {
        self.call(Method::GET, "/api/v0/nodes?detail=1&limit=10000", None).await
    }

    async fn submitted(&self, job: &Submission) -> Result<Value, RuntimeError> {
        let node = job.nodes.keys().next().map_or(job.work.node.as_str(), String::as_str);
        let nodes = self.nodes().await?;
        let at = answers::resource(&nodes, node);
        let at = at.ok_or_else(|| http::answered(SITE, "submit a job", format!("there is no node {node}")))?;
        let devices = job.work.devices.len();
        let (supervisor, folder) = (quoted(&job.supervisor), quoted(&job.folder));
        Ok(json!({
            "submission_id": answers::submission(&job.mark),
            "entrypoint": format!("exec {supervisor} {SUPERVISE} {folder}"),
            "entrypoint_num_cpus": job.work.cpu.milli() as f64 / 1_000.0,
            "entrypoint_num_gpus": devices,
            "entrypoint_memory": job.work.memory.bytes(),
            "entrypoint_resources": {at: PIN},
            "metadata": {answers::MARK: job.mark.to_string(), "name": job.job_name()},
        }))
    }
}

impl Controller for Ray {
    fn name(&self) -> String {
        "the Ray dashboard".into()
    }

    fn has_gangs(&self) -> bool {
        false
    }

    fn admit(&self, _work: &Work) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn snapshot(&self) -> Result<Snapshot, RuntimeError> {
        let nodes = self.nodes().await?;
        let status = self.call(Method::GET, "/api/cluster_status", None).await?;
        let jobs = self.call(Method::GET, "/api/jobs/", None).await?;
        Ok(answers::snapshot(&nodes, &status, &jobs))
    }

    async fn submit(&self, job: &Submission) -> Result<String, RuntimeError> {
        let body = self.submitted(job).await?;
        let id = answers::submission(&job.mark);
        match self.call(Method::POST, "/api/jobs/", Some(body)).await {
            Ok(_) => Ok(id),
            // an earlier try came through although its answer did not; whose it is its mark will say
            Err(RuntimeError::Site { answer, .. }) if answer.contains("already exists") => Ok(id),
            Err(error) => Err(error),
        }
    }

    async fn cancel(&self, id: &str) -> Result<(), RuntimeError> {
        match self.call(Method::POST, &format!("/api/jobs/{id}/stop"), None).await {
            Err(RuntimeError::Site { answer, .. }) if answer.contains("does not exist") => Ok(()),
            done => done.map(drop),
        }
    }
}
