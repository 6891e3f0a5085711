//! Who decides where a workload goes: the orchestrator, by a quote for the order that the workload is.

use super::workload::{Asked, PodSet};
use rhumb_model::{Bytes, ModelName, PointName, Span};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

const PATIENCE: Duration = Duration::from_secs(15);
/// Where makers' tools say which model a node has.
const PRODUCT: &str = "nvidia.com/gpu.product";

/// Decides where a workload goes.
pub trait Decide: Send + Sync + 'static {
    fn decide(&self, asked: &Asked) -> impl Future<Output = Result<Decision, DecideError>> + Send;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// One of those that were asked about.
    Nominate(String),
    /// It fits nowhere now.
    Wait { why: String },
}

#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    #[error("workload {workload} cannot be read as an order: {why}")]
    Workload { workload: String, why: String },
    #[error("cannot ask {url} for a quote: {answer}")]
    Orchestrator { url: String, answer: String },
}

/// How workloads read as orders.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuoteSettings {
    /// Base URL of the orchestrator.
    pub orchestrator: String,
    /// Holds a bearer token of the tenant that the workloads count for; read anew for every call.
    pub token_file: PathBuf,
    /// Sites by the clusters of MultiKueue.
    pub clusters: BTreeMap<String, PointName>,
    /// Models that are meant by a resource, or by a value of the label `nvidia.com/gpu.product`.
    #[serde(default)]
    pub models: BTreeMap<String, Vec<ModelName>>,
    /// What Kueue does not say of the workloads of a queue, by `NAMESPACE/LOCALQUEUE`, or by `*` for all others.
    #[serde(default)]
    pub queues: BTreeMap<String, Profile>,
    /// How long the quote holds its devices and links for the workload: until its pods are seen there. Zero: nothing is held.
    #[serde(default = "hold")]
    pub hold: Span,
}

/// What an order says beside its components, in the words of orders.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    pub class: Option<String>,
    /// Of workloads that name no longest run; default: `1h`.
    pub duration: Option<Span>,
    /// Components are called as the workload's pod sets, a plain job's is `main`.
    pub flows: Vec<Value>,
    pub constraints: Map<String, Value>,
    pub terms: Map<String, Value>,
}

fn hold() -> Span {
    Span::from_micros(60_000_000)
}

/// Asks an orchestrator.
#[derive(Debug)]
pub struct Quotes {
    client: reqwest::Client,
    settings: QuoteSettings,
}

impl Quotes {
    pub fn new(settings: QuoteSettings) -> Result<Self, DecideError> {
        // an error says that one is set already
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().timeout(PATIENCE).redirect(reqwest::redirect::Policy::none());
        let refused = |error: reqwest::Error| DecideError::Orchestrator {
            url: settings.orchestrator.clone(),
            answer: crate::error::chain(&error),
        };
        Ok(Self { client: client.build().map_err(refused)?, settings })
    }

    /// The order that a workload is; `None`: none of its clusters is a known site.
    fn order(&self, asked: &Asked) -> Result<Option<Value>, DecideError> {
        let unread =
            |why: String| DecideError::Workload { workload: format!("{}/{}", asked.namespace, asked.name), why };
        let sites: Vec<&PointName> =
            asked.clusters.iter().filter_map(|name| self.settings.clusters.get(name)).collect();
        if sites.is_empty() {
            return Ok(None);
        }
        let queues = &self.settings.queues;
        let profile = queues.get(&format!("{}/{}", asked.namespace, asked.queue)).or_else(|| queues.get("*"));
        let profile = profile.cloned().unwrap_or_default();
        let duration = match (asked.seconds_most, profile.duration) {
            (Some(seconds), _) => format!("{seconds}s"),
            (None, Some(duration)) => duration.to_string(),
            (None, None) => "1h".into(),
        };
        let components: Result<Vec<Value>, String> =
            asked.pods.iter().filter(|set| set.count > 0).map(|set| self.component(set, &duration)).collect();
        let mut constraints = profile.constraints;
        // a workload runs in one cluster
        constraints.insert("max_sites".into(), json!(1));
        constraints.insert("sites".into(), json!(sites));
        let mut order = json!({
            "name": name(asked),
            "class": profile.class.as_deref().unwrap_or("training"),
            "components": components.map_err(unread)?,
            "constraints": constraints,
        });
        if !profile.flows.is_empty() {
            order["flows"] = json!(profile.flows);
        }
        if !profile.terms.is_empty() {
            order["terms"] = json!(profile.terms);
        }
        Ok(Some(order))
    }

    fn component(&self, set: &PodSet, duration: &str) -> Result<Value, String> {
        let mut need = json!({});
        if set.cpu_milli > 0 {
            need["cpu"] = json!(set.cpu_milli.div_ceil(1_000));
        }
        if set.memory_bytes > 0 {
            // in what has a unit of its own
            need["memory"] = json!(Bytes::from_bytes(set.memory_bytes.next_multiple_of(1 << 20)).to_string());
        }
        let devices = set.devices.as_ref().ok_or_else(|| format!("the devices of {} cannot be counted", set.name))?;
        let mut kinds = devices.iter();
        if let Some((resource, count)) = kinds.next() {
            if kinds.next().is_some() {
                return Err(format!("{} asks for devices of several kinds", set.name));
            }
            let product = set.node_labels.get(PRODUCT).and_then(|product| self.settings.models.get(product));
            let models = product.or_else(|| self.settings.models.get(resource));
            let models = models.ok_or_else(|| format!("nobody says which models {resource} is: add it to models"))?;
            need["accelerators"] = json!({"count": count, "models": models});
        }
        Ok(json!({
            "name": set.name, "replicas": set.count, "gang": set.count > 1, "need": need,
            "work": {"duration": duration}, "run": {"command": []},
        }))
    }

    async fn ask(&self, asked: &Asked, order: &Value) -> Result<Value, DecideError> {
        let url = format!("{}/v1/quotes", self.settings.orchestrator.trim_end_matches('/'));
        let failed = |answer: String| DecideError::Orchestrator { url: url.clone(), answer };
        let token = tokio::fs::read_to_string(&self.settings.token_file).await;
        let token = token.map_err(|error| failed(format!("the token cannot be read: {error}")))?;
        let hold = self.settings.hold;
        let query = if hold.micros() == 0 { ("dry_run", "true".to_owned()) } else { ("hold", hold.to_string()) };
        let request = self.client.post(&url).query(&[query]).bearer_auth(token.trim()).json(order);
        // a question that is asked again is the same for a moment: an answer that came too late is not taken twice
        let moment = jiff::Timestamp::now().as_second() / 10;
        let key = format!("multikueue-{}-{}-{moment}", asked.uid, asked.clusters.len());
        let answer = request.header("Idempotency-Key", key).send().await;
        let answer = answer.map_err(|error| failed(crate::error::chain(&error)))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|error| failed(crate::error::chain(&error)))?;
        if !status.is_success() {
            return Err(failed(format!("{status}: {}", text.chars().take(300).collect::<String>())));
        }
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
    }
}

impl Decide for Quotes {
    async fn decide(&self, asked: &Asked) -> Result<Decision, DecideError> {
        let Some(order) = self.order(asked)? else {
            return Ok(Decision::Wait { why: "none of its clusters is a site of the federation".into() });
        };
        let quote = self.ask(asked, &order).await?;
        let site = &quote["plan"]["components"][0]["assignments"][0]["site"];
        if let Some(site) = site.as_str() {
            let chosen = asked
                .clusters
                .iter()
                .find(|name| self.settings.clusters.get(*name).is_some_and(|known| known.as_str() == site));
            if let Some(cluster) = chosen {
                return Ok(Decision::Nominate(cluster.clone()));
            }
        }
        let reason = |reason: &Value| reason["reason"].as_str().unwrap_or("no plan").to_owned();
        let reasons: Vec<String> = quote["reasons"].as_array().into_iter().flatten().map(reason).collect();
        Ok(Decision::Wait { why: reasons.join(", ") })
    }
}

/// A workload's name as an order's, which may be shorter.
fn name(asked: &Asked) -> String {
    let good = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    format!("{}-{}", asked.namespace, asked.name).chars().map(good).take(63).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotes() -> Quotes {
        let settings = json!({
            "orchestrator": "http://127.0.0.1:1", "token_file": "/none",
            "clusters": {"worker-1": "shanghai-1", "worker-2": "beijing-1"},
            "models": {"nvidia.com/gpu": ["H100", "A100"], "NVIDIA-A100-SXM4-40GB": ["A100"]},
            "queues": {"ml/corpus": {"flows": [{"from": "dataset/corpus", "to": "main", "volume": "2TB"}],
                "terms": {"value_per_hour": "30 CNY"}, "constraints": {"jurisdictions": ["CN"]}, "duration": "6h"}},
        });
        Quotes::new(serde_json::from_value(settings).unwrap()).unwrap()
    }

    fn asked() -> Asked {
        let pods = PodSet {
            name: "main".into(),
            count: 2,
            cpu_milli: 15_500,
            memory_bytes: 100_000_000_001,
            devices: Some(BTreeMap::from([("nvidia.com/gpu".into(), 8)])),
            node_labels: BTreeMap::new(),
        };
        Asked {
            namespace: "ml".into(),
            name: "job-train-1f2a".into(),
            uid: "u".into(),
            queue: "corpus".into(),
            pods: vec![pods],
            seconds_most: None,
            clusters: vec!["worker-1".into(), "worker-2".into(), "unknown".into()],
        }
    }

    #[test]
    fn a_workload_reads_as_an_order() {
        let order = quotes().order(&asked()).unwrap().unwrap();
        let read = rhumb_model::Order::read_json(&order.to_string()).unwrap_or_else(|error| panic!("{error}: {order}"));
        assert_eq!(read.components.len(), 1);
        assert_eq!(
            order["constraints"],
            json!({"jurisdictions": ["CN"], "max_sites": 1, "sites": ["shanghai-1", "beijing-1"]})
        );
        let need = &order["components"][0]["need"];
        assert_eq!((&need["cpu"], &need["accelerators"]["models"]), (&json!(16), &json!(["H100", "A100"])));
        assert_eq!(order["components"][0]["work"]["duration"], "6h");
        let of_nodes = PodSet {
            node_labels: BTreeMap::from([(PRODUCT.into(), "NVIDIA-A100-SXM4-40GB".into())]),
            ..asked().pods[0].clone()
        };
        let only = quotes().order(&Asked { pods: vec![of_nodes], ..asked() }).unwrap().unwrap();
        assert_eq!(only["components"][0]["need"]["accelerators"]["models"], json!(["A100"]));
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        let with = |devices: Option<BTreeMap<String, u64>>| {
            let pods = PodSet { devices, ..asked().pods[0].clone() };
            quotes().order(&Asked { pods: vec![pods], ..asked() }).unwrap_err().to_string()
        };
        assert!(with(None).contains("cannot be counted"));
        assert!(with(Some(BTreeMap::from([("amd.com/gpu".into(), 1)]))).contains("add it to models"));
        let nowhere = quotes().order(&Asked { clusters: vec!["unknown".into()], ..asked() }).unwrap();
        assert_eq!(nowhere, None);
    }
}
