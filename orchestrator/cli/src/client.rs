//! The REST client: one call at a time, errors as the server words them, connection errors tried again where that is safe.

use crate::{
    context::Context,
    exit::{CliError, Problem},
};
use reqwest::{Method, StatusCode, Url, header};
use serde_json::Value;
use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

const CONNECT: Duration = Duration::from_secs(3);
const ANSWER: Duration = Duration::from_secs(30);
/// How long a call is tried again while the server is not there or asks to come back: longer than a restart takes.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(200);
/// Largest answer taken.
const MOST_BYTES: usize = 64 << 20;
/// What the REST interface calls YAML, of which JSON is a part.
const YAML: &str = "application/yaml";

#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<String>,
}

/// What is sent with a call.
#[derive(Debug, Default)]
pub struct Send<'a> {
    pub query: Vec<(&'a str, String)>,
    /// A document in YAML or JSON.
    pub body: Option<String>,
    pub headers: Vec<(&'a str, String)>,
}

/// Whether a call that got no answer may be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    Safe,
    /// It might be done twice.
    Never,
}

impl Client {
    pub fn new(context: Context) -> Result<Self, CliError> {
        let wrong = |why: &str| CliError::Usage(format!("the server's URL {} is not valid: {why}", context.url));
        let base = Url::parse(&context.url).map_err(|e| wrong(&e.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(wrong("write one that begins with http:// or https://"));
        }
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .user_agent(concat!("rhumb/", env!("CARGO_PKG_VERSION")))
            // a redirect would carry the token elsewhere
            .redirect(reqwest::redirect::Policy::none());
        if is_local(&base) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(anyhow::Error::from)?;
        Ok(Self { http, base, token: context.token })
    }

    pub fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    pub async fn get(&self, path: &[&str], query: Vec<(&str, String)>) -> Result<Value, CliError> {
        self.call(Method::GET, path, Send { query, ..Send::default() }, Repeat::Safe).await
    }

    /// `path` are segments, which are escaped here.
    pub async fn call(&self, method: Method, path: &[&str], send: Send<'_>, repeat: Repeat) -> Result<Value, CliError> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !send.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&send.query);
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let mut request = self.http.request(method.clone(), url.clone());
            if let Some(token) = &self.token {
                request = request.bearer_auth(token);
            }
            for (name, value) in &send.headers {
                request = request.header(*name, value);
            }
            if let Some(body) = &send.body {
                request = request.header(header::CONTENT_TYPE, YAML).body(body.clone());
            }
            let (error, pause) = match self.once(request).await {
                Ok(value) => return Ok(value),
                Err(Failure { error, again: Some(pause) }) if repeat == Repeat::Safe => (error, pause),
                Err(Failure { error, .. }) => return Err(error),
            };
            if Instant::now() + pause >= until {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn once(&self, request: reqwest::RequestBuilder) -> Result<Value, Failure> {
        let response = request.send().await.map_err(|e| self.unreachable(&e))?;
        let status = response.status();
        let retry = response.headers().get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
        let body = self.body(response).await?;
        if status.is_success() {
            if body.is_empty() {
                return Ok(Value::Null);
            }
            return serde_json::from_slice(&body).map_err(|_| {
                Failure::last(CliError::Failed(format!(
                    "{} did not answer with JSON: is it an orchestrator?",
                    self.url()
                )))
            });
        }
        let text = String::from_utf8_lossy(&body);
        let problem = serde_json::from_str(&text).unwrap_or_else(|_| Problem::bare(status.as_u16(), &text));
        let busy =
            matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::CONFLICT);
        let again = retry.filter(|_| busy).map(Duration::from_secs);
        Err(Failure { error: CliError::Problem(Box::new(problem)), again })
    }

    async fn body(&self, mut response: reqwest::Response) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.unreachable(&e))? {
            if body.len() + chunk.len() > MOST_BYTES {
                let why = format!("{} answered with more than {MOST_BYTES} bytes: ask for less", self.url());
                return Err(Failure::last(CliError::Failed(why)));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        // the innermost error is the one that says what happened
        let causes = std::iter::successors(std::error::Error::source(error), |e| e.source());
        let cause = causes.last().map_or_else(|| "the connection failed".to_owned(), ToString::to_string);
        let cause = if error.is_timeout() { "it did not answer in time".to_owned() } else { cause };
        let reason = format!("{cause}; start one with `rhumb demo`, or name it in RHUMB_URL or with --context");
        Failure { error: CliError::Unreachable { what: self.url().to_owned(), reason }, again: Some(PAUSE) }
    }
}

struct Failure {
    error: CliError,
    /// Worth another try after this.
    again: Option<Duration>,
}

impl Failure {
    fn last(error: CliError) -> Self {
        Self { error, again: None }
    }
}

fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost" || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|a| a.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(url: &str) -> Result<Client, CliError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Client::new(Context { url: url.to_owned(), token: None, token_file: None })
    }

    #[test]
    fn a_url_that_is_none_is_wrong_usage() {
        for bad in ["", "127.0.0.1:7070", "ftp://x", "http://"] {
            assert!(matches!(client(bad), Err(CliError::Usage(_))), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_unreachable_and_the_remedy_is_named() {
        // a port that was free a moment ago
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let client = client(&format!("http://127.0.0.1:{port}")).unwrap();
        let once = client.call(Method::POST, &["v1"], Send::default(), Repeat::Never).await;
        let error = once.unwrap_err();
        assert!(matches!(error, CliError::Unreachable { .. }) && error.to_string().contains("rhumb demo"), "{error}");
    }
}
