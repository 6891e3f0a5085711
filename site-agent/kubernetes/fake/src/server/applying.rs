//! Server-side apply of a status: who applied which field, what another may not change, and what goes when it is left out.
//! Fields are owned as wholes, but for lists of conditions and checks, whose items are.

use crate::store::Refused;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// A field of the status, and the keys of an item of it.
type Place = (String, Option<String>);

/// What items of a list are told apart by.
fn key_of(field: &str) -> Option<&'static str> {
    match field {
        "conditions" => Some("type"),
        "admissionChecks" => Some("name"),
        _ => None,
    }
}

fn places(status: &Value) -> BTreeSet<Place> {
    let mut places = BTreeSet::new();
    for (field, value) in status.as_object().into_iter().flatten() {
        match (key_of(field), value.as_array()) {
            (Some(key), Some(items)) => {
                places.extend(items.iter().map(|item| (field.clone(), Some(json!({key: item[key]}).to_string()))));
            }
            _ => drop(places.insert((field.clone(), None))),
        }
    }
    places
}

/// The same out of the set of fields that clients see.
fn owned(entry: &Value) -> BTreeSet<Place> {
    let mut places = BTreeSet::new();
    for (name, inner) in entry["fieldsV1"]["f:status"].as_object().into_iter().flatten() {
        let field = name.trim_start_matches("f:").to_owned();
        let items: Vec<&String> = inner
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
            .filter(|name| name.starts_with("k:"))
            .collect();
        match items.as_slice() {
            [] => drop(places.insert((field, None))),
            items => places.extend(items.iter().map(|item| (field.clone(), Some(item[2..].to_owned())))),
        }
    }
    places
}

fn entry(manager: &str, places: &BTreeSet<Place>) -> Value {
    let mut fields = Map::new();
    for (field, item) in places {
        let inner = fields.entry(format!("f:{field}")).or_insert_with(|| json!({}));
        if let Some(item) = item {
            inner[format!("k:{item}")] = json!({});
        }
    }
    json!({"manager": manager, "operation": "Apply", "subresource": "status", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": fields}})
}

fn at<'a>(status: &'a Value, (field, item): &Place) -> Option<&'a Value> {
    let value = status.get(field)?;
    let Some(item) = item else { return Some(value) };
    value.as_array()?.iter().find(|value| is_item(value, item))
}

fn is_item(value: &Value, item: &str) -> bool {
    let keys: Map<String, Value> = serde_json::from_str(item).unwrap();
    keys.iter().all(|(key, wanted)| value.get(key) == Some(wanted))
}

fn take_away(status: &mut Value, (field, item): &Place) {
    match item {
        None => drop(status.as_object_mut().and_then(|status| status.remove(field))),
        Some(item) => {
            if let Some(items) = status.get_mut(field).and_then(Value::as_array_mut) {
                items.retain(|value| !is_item(value, item));
            }
        }
    }
}

pub(super) fn apply(object: &mut Value, change: &Value, manager: &str, force: bool) -> Result<(), Refused> {
    if manager.is_empty() {
        return Err(Refused(400, "BadRequest", "fieldManager is required for apply".into()));
    }
    let new = places(&change["status"]);
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let (own, others): (Vec<Value>, Vec<Value>) = entries.into_iter().partition(|entry| entry["manager"] == manager);
    let mut kept = Vec::new();
    for other in &others {
        let mut held = owned(other);
        for place in held.clone().intersection(&new) {
            let is_changed = at(&object["status"], place) != at(&change["status"], place);
            if is_changed && !force {
                let message = format!("Apply failed with 1 conflict: {} of {place:?}", other["manager"]);
                return Err(Refused(409, "Conflict", message));
            }
            if is_changed {
                held.remove(place);
            }
        }
        kept.push((other["manager"].as_str().unwrap_or_default().to_owned(), held));
    }
    let before: BTreeSet<Place> = own.iter().flat_map(owned).collect();
    for place in before.difference(&new) {
        if !kept.iter().any(|(_, held)| held.contains(place)) {
            take_away(&mut object["status"], place);
        }
    }
    for place in &new {
        let value = at(&change["status"], place).cloned().unwrap_or_default();
        take_away(&mut object["status"], place);
        match place {
            (field, None) => object["status"][field] = value,
            (field, Some(_)) => match object["status"][field].as_array_mut() {
                Some(items) => items.push(value),
                None => object["status"][field] = json!([value]),
            },
        }
    }
    kept.push((manager.to_owned(), new));
    object["metadata"]["managedFields"] = kept.iter().map(|(manager, held)| entry(manager, held)).collect();
    Ok(())
}
