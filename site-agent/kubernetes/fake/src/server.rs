//! Requests and answers.

mod applying;
mod watching;
mod writing;

use crate::{
    Fault, Shared, TOKEN,
    selector::Selector,
    store::{Key, Refused},
};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{RawQuery, Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::Response,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// Largest body.
const BODY_MOST: usize = 4 << 20;

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new().fallback(answer).with_state(shared)
}

/// What a path names.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl Target {
    /// `/api/v1/[namespaces/NS/]RESOURCE[/NAME[/SUB]]` or `/apis/GROUP/VERSION/..`.
    fn read(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, rest) = match parts.as_slice() {
            ["api", "v1", rest @ ..] => (None, rest),
            ["apis", group, _, rest @ ..] => (Some(*group), rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let resource = match group {
            Some(group) => format!("{group}/{}", rest.first()?),
            None => (*rest.first()?).to_owned(),
        };
        let owned = |place: usize| rest.get(place).map(|text| (*text).to_owned());
        Some(Self { resource, namespace: namespace.into(), name: owned(1), subresource: owned(2) })
    }

    pub(crate) fn key(&self, name: &str) -> Key {
        Key::new(&self.resource, &self.namespace, name)
    }
}

async fn answer(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let query = read_query(query.as_deref().unwrap_or_default());
    let asked = format!("{} {} {query:?}", parts.method, parts.uri);
    shared.requests.lock().unwrap().push(asked.clone());
    if !is_known(&parts.headers) {
        return refused(&Refused(401, "Unauthorized", "Unauthorized".into()));
    }
    let fault = {
        let mut faults = shared.faults.lock().unwrap();
        let place = faults.iter().position(|fault| asked.contains(&fault.part));
        place.map(|place| faults.remove(place))
    };
    let wrong = |fault: &Fault| refused(&Refused(fault.code, "InternalError", "as the test asked".into()));
    if let Some(fault) = fault.as_ref().filter(|fault| !fault.is_done) {
        return wrong(fault);
    }
    if path == "/apis" {
        return reply(200, &groups());
    }
    let Some(target) = Target::read(&path) else { return refused(&not_found(&path)) };
    let body = axum::body::to_bytes(body, BODY_MOST).await.unwrap_or_default();
    let done = match parts.method {
        Method::GET if query.get("watch").is_some_and(|watch| watch == "true" || watch == "1") => {
            return watching::watch(&shared, &target, &query);
        }
        Method::GET => get(&shared, &target, &query),
        Method::POST => writing::create(&shared, &target, &body).map(|object| (201, object)),
        Method::PUT => writing::replace(&shared, &target, &body).map(|object| (200, object)),
        Method::PATCH => {
            let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            writing::patch(&shared, &target, &query, kind, &body).map(|object| (200, object))
        }
        Method::DELETE => writing::delete(&shared, &target, &query, &body).map(|object| (200, object)),
        _ => Err(Refused(405, "MethodNotAllowed", "not here".into())),
    };
    if let Some(fault) = &fault {
        return wrong(fault);
    }
    match done {
        Ok((code, object)) => reply(code, &object),
        Err(why) => refused(&why),
    }
}

/// The groups that clients here ask for.
fn groups() -> Value {
    let version = json!({"groupVersion": "kueue.x-k8s.io/v1beta2", "version": "v1beta2"});
    let kueue = json!({"name": "kueue.x-k8s.io", "versions": [version], "preferredVersion": version});
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [kueue]})
}

fn is_known(headers: &HeaderMap) -> bool {
    headers.get(header::AUTHORIZATION).is_some_and(|word| word == format!("Bearer {TOKEN}").as_str())
}

fn get(shared: &Shared, target: &Target, query: &BTreeMap<String, String>) -> Result<(u16, Value), Refused> {
    let store = shared.store();
    if let Some(name) = &target.name {
        let object = store.get(&target.key(name)).ok_or_else(|| not_found(name))?;
        return Ok((200, object.clone()));
    }
    let selector = selector(query);
    let all: Vec<&Value> = store
        .all(&target.resource, &target.namespace)
        .map(|(_, object)| object)
        .filter(|o| selector.matches(o))
        .collect();
    // a page is one of the state as it was at the first: gone once that is forgotten
    let (version, first) = match query.get("continue").and_then(|text| text.split_once(':')) {
        Some((version, first)) => (version.parse().unwrap_or(0), first.parse().unwrap_or(0)),
        None => (store.version(), 0),
    };
    if version < store.floor {
        return Err(Refused(410, "Expired", "the continue token is too old".into()));
    }
    let limit =
        query.get("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let items: Vec<&Value> = all.iter().copied().skip(first).take(limit).collect();
    let next = first + items.len();
    let more = if next < all.len() { format!("{version}:{next}") } else { String::new() };
    let metadata = json!({"resourceVersion": version.to_string(), "continue": more});
    Ok((200, json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})))
}

pub(crate) fn selector(query: &BTreeMap<String, String>) -> Selector {
    let of = |name: &str| query.get(name).map_or("", String::as_str);
    Selector::new(of("labelSelector"), of("fieldSelector"))
}

pub(crate) fn not_found(name: &str) -> Refused {
    Refused(404, "NotFound", format!("\"{name}\" not found"))
}

/// As the API says what went wrong.
pub(crate) fn status(why: &Refused) -> Value {
    let Refused(code, reason, message) = why;
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message})
}

fn refused(why: &Refused) -> Response {
    reply(why.0, &status(why))
}

fn reply(code: u16, object: &Value) -> Response {
    Response::builder()
        .status(StatusCode::from_u16(code).unwrap())
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(Bytes::from(object.to_string())))
        .unwrap()
}

fn read_query(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('=').or((!pair.is_empty()).then_some((pair, ""))));
    pairs.map(|(name, value)| (plain(name), plain(value))).collect()
}

/// Without percent signs and pluses.
fn plain(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}
