//! Writes, and what makes the server refuse them.

use super::{Target, applying, not_found};
use crate::{
    Shared,
    store::{Key, Refused, Store, now},
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

const FOREGROUND: &str = "foregroundDeletion";
/// Resources whose status is written apart from the rest.
const WITH_STATUS: [&str; 4] = ["pods", "nodes", "batch/jobs", "kueue.x-k8s.io/workloads"];

fn read(body: &[u8]) -> Result<Value, Refused> {
    serde_json::from_slice(body).map_err(|error| Refused(400, "BadRequest", error.to_string()))
}

pub(super) fn create(shared: &Shared, target: &Target, body: &[u8]) -> Result<Value, Refused> {
    let mut object = read(body)?;
    let prefix = object["metadata"]["generateName"].as_str().map(str::to_owned);
    let name = match (object["metadata"]["name"].as_str(), prefix) {
        (Some(name), _) => name.to_owned(),
        (None, Some(prefix)) => format!("{prefix}{}", &Uuid::now_v7().simple().to_string()[27..]),
        (None, None) => return Err(invalid("name or generateName is required")),
    };
    check(&target.resource, &object, &name)?;
    if WITH_STATUS.contains(&target.resource.as_str()) && target.resource != "nodes" {
        object["status"] = json!({});
    }
    shared.store().create(&target.key(&name), object)
}

/// What the real one would refuse of what is made here.
fn check(resource: &str, object: &Value, name: &str) -> Result<(), Refused> {
    let is_name = name.len() <= 253
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.'))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    if !is_name {
        return Err(invalid(&format!("{name} is no name")));
    }
    for metadata in [&object["metadata"], &object["spec"]["template"]["metadata"]] {
        for (label, value) in metadata["labels"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or("!");
            let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            let edges = value.chars().next().into_iter().chain(value.chars().last());
            let is_value =
                value.len() <= 63 && value.chars().all(good) && edges.clone().all(|c| c.is_ascii_alphanumeric());
            let key = label.rsplit('/').next().unwrap_or_default();
            if !is_value || key.is_empty() || key.len() > 63 {
                return Err(invalid(&format!("label {label}={value} is not valid")));
            }
        }
    }
    if resource != "batch/jobs" {
        return Ok(());
    }
    let spec = &object["spec"];
    let pod = &spec["template"]["spec"];
    if !matches!(pod["restartPolicy"].as_str(), Some("Never" | "OnFailure")) {
        return Err(invalid("spec.template.spec.restartPolicy must be Never or OnFailure"));
    }
    let is_indexed = spec["completionMode"] == "Indexed";
    if !spec["backoffLimitPerIndex"].is_null() && !is_indexed {
        return Err(invalid("spec.backoffLimitPerIndex needs indexed completion"));
    }
    if pod["containers"].as_array().is_none_or(Vec::is_empty) || pod["containers"][0]["image"].as_str().is_none() {
        return Err(invalid("spec.template.spec.containers: a container with an image is required"));
    }
    for (resource, limit) in pod["containers"][0]["resources"]["limits"].as_object().into_iter().flatten() {
        let asked = &pod["containers"][0]["resources"]["requests"][resource];
        if resource.contains('/') && !asked.is_null() && asked != limit {
            return Err(invalid(&format!("requests and limits of {resource} must be the same")));
        }
    }
    Ok(())
}

fn invalid(message: &str) -> Refused {
    Refused(422, "Invalid", message.to_owned())
}

/// A write names the version that it is based on, or none.
fn is_current(old: &Value, new: &Value) -> Result<(), Refused> {
    let conflict = |what: &str| Refused(409, "Conflict", format!("{what}: the object has been modified"));
    let (is, based) = (&old["metadata"]["resourceVersion"], &new["metadata"]["resourceVersion"]);
    if !based.is_null() && based != "" && based != is {
        return Err(conflict("resourceVersion"));
    }
    let (is, based) = (&old["metadata"]["uid"], &new["metadata"]["uid"]);
    if !based.is_null() && based != is {
        return Err(conflict("uid"));
    }
    Ok(())
}

pub(super) fn replace(shared: &Shared, target: &Target, body: &[u8]) -> Result<Value, Refused> {
    let new = read(body)?;
    let name = target.name.as_deref().unwrap_or_default();
    let key = target.key(name);
    let mut store = shared.store();
    let old = store.get(&key).cloned().ok_or_else(|| not_found(name))?;
    is_current(&old, &new)?;
    Ok(write(&mut store, target, &key, &old, new))
}

pub(super) fn patch(
    shared: &Shared,
    target: &Target,
    query: &BTreeMap<String, String>,
    kind: &str,
    body: &[u8],
) -> Result<Value, Refused> {
    let change = read(body)?;
    let name = target.name.as_deref().unwrap_or_default();
    let key = target.key(name);
    let mut store = shared.store();
    let is_applied = kind.starts_with("application/apply-patch");
    if !is_applied && !kind.starts_with("application/merge-patch") {
        return Err(Refused(415, "UnsupportedMediaType", kind.to_owned()));
    }
    let old = store.get(&key).cloned().ok_or_else(|| not_found(name))?;
    is_current(&old, &change)?;
    let mut new = old.clone();
    if is_applied {
        let manager = query.get("fieldManager").cloned().unwrap_or_default();
        let force = query.get("force").is_some_and(|force| force == "true");
        applying::apply(&mut new, &change, &manager, force)?;
    } else {
        merge(&mut new, &change);
    }
    Ok(write(&mut store, target, &key, &old, new))
}

fn write(store: &mut Store, target: &Target, key: &Key, old: &Value, mut new: Value) -> Value {
    if target.subresource.as_deref() == Some("status") {
        let mut kept = old.clone();
        kept["status"] = new["status"].take();
        kept["metadata"]["managedFields"] = new["metadata"]["managedFields"].take();
        new = kept;
    } else {
        if WITH_STATUS.contains(&key.resource.as_str()) {
            new["status"] = old["status"].clone();
        }
        if new["spec"] != old["spec"] {
            new["metadata"]["generation"] = json!(old["metadata"]["generation"].as_u64().unwrap_or(0) + 1);
        }
        for fixed in ["uid", "creationTimestamp", "deletionTimestamp", "name", "namespace"] {
            new["metadata"][fixed] = old["metadata"][fixed].clone();
        }
    }
    if new["metadata"]["managedFields"].is_null() {
        new["metadata"].as_object_mut().unwrap().remove("managedFields");
    }
    store.put(key, new)
}

/// RFC 7396.
fn merge(into: &mut Value, change: &Value) {
    let Some(fields) = change.as_object() else {
        *into = change.clone();
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    for (name, value) in fields {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut into[name], value);
        }
    }
}

pub(super) fn delete(
    shared: &Shared,
    target: &Target,
    query: &BTreeMap<String, String>,
    body: &[u8],
) -> Result<Value, Refused> {
    let options = if body.is_empty() { Value::Null } else { read(body)? };
    let name = target.name.as_deref().unwrap_or_default();
    let key = target.key(name);
    let mut store = shared.store();
    let mut object = store.get(&key).cloned().ok_or_else(|| not_found(name))?;
    is_current(&object, &json!({"metadata": options["preconditions"]}))?;
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return Ok(object);
    }
    let of = |name: &str| options[name].as_str().map(str::to_owned).or_else(|| query.get(name).cloned());
    if key.resource == "pods" {
        let own = object["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
        let grace = options["gracePeriodSeconds"].as_u64().unwrap_or(own);
        object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    } else {
        let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        match of("propagationPolicy").as_deref() {
            Some("Foreground") => finalizers.push(json!(FOREGROUND)),
            Some("Orphan") => orphan(&mut store, &object),
            _ => {}
        }
        object["metadata"]["finalizers"] = json!(finalizers);
    }
    object["metadata"]["deletionTimestamp"] = json!(now());
    Ok(store.put(&key, object))
}

/// What it owns stays.
fn orphan(store: &mut Store, owner: &Value) {
    let uid = &owner["metadata"]["uid"];
    let owned = |object: &Value| object["metadata"]["ownerReferences"][0]["uid"] == *uid;
    let pods: Vec<Key> = store.all("pods", "").filter(|(_, pod)| owned(pod)).map(|(key, _)| key.clone()).collect();
    for pod in pods {
        store.change(&pod, |pod| drop(pod["metadata"].as_object_mut().unwrap().remove("ownerReferences")));
    }
}
