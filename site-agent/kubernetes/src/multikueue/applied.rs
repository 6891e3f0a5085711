//! What a manager of fields applied before: who applies again says all of it again, or takes away what is left out.

use kube::api::ObjectMeta;
use serde_json::{Map, Value};

/// The part of `status` that `manager` owns by applying it.
pub(crate) fn owned(metadata: &ObjectMeta, manager: &str, status: &Value) -> Value {
    let entries = metadata.managed_fields.as_deref().unwrap_or_default();
    let is_it = |entry: &&_| {
        let entry: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry = entry;
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref() == Some("status")
    };
    let fields = entries.iter().find(is_it).and_then(|entry| entry.fields_v1.as_ref());
    let fields = fields.and_then(|fields| fields.0.get("f:status"));
    fields.and_then(|fields| part(status, fields)).unwrap_or_else(|| Value::Object(Map::new()))
}

/// The part of a value that a set of fields names (`FieldsV1` of the API): `f:name`, `k:{keys}` and `v:value` of lists.
fn part(value: &Value, fields: &Value) -> Option<Value> {
    let children: Vec<(&String, &Value)> = fields.as_object()?.iter().filter(|(name, _)| *name != ".").collect();
    if children.is_empty() {
        // the whole of a leaf; of what has parts of its own, that it is there
        let is_marked = fields.get(".").is_some();
        return Some(match value {
            Value::Object(_) if is_marked => Value::Object(Map::new()),
            Value::Array(_) if is_marked => Value::Array(Vec::new()),
            value => value.clone(),
        });
    }
    match value {
        Value::Object(object) => {
            let of = |(name, inner): (&String, &Value)| {
                let name = name.strip_prefix("f:")?;
                Some((name.to_owned(), part(object.get(name)?, inner)?))
            };
            Some(Value::Object(children.into_iter().filter_map(of).collect()))
        }
        Value::Array(items) => {
            Some(children.into_iter().filter_map(|(name, inner)| item(items, name, inner)).collect())
        }
        _ => None,
    }
}

fn item(items: &[Value], name: &str, fields: &Value) -> Option<Value> {
    if let Some(value) = name.strip_prefix("v:") {
        let value: Value = serde_json::from_str(value).ok()?;
        return items.contains(&value).then_some(value);
    }
    let keys: Map<String, Value> = serde_json::from_str(name.strip_prefix("k:")?).ok()?;
    let found = items.iter().find(|item| keys.iter().all(|(key, value)| item.get(key) == Some(value)))?;
    let mut kept = part(found, fields)?;
    // keys belong to an item whoever owns the rest of it
    if let Some(kept) = kept.as_object_mut() {
        kept.extend(keys);
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_applied_is_said_again_and_nothing_else() {
        let status = json!({
            "conditions": [
                {"type": "QuotaReserved", "status": "True", "reason": "x"},
                {"type": "Finished", "status": "False", "reason": "theirs"},
            ],
            "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": 2}]},
            "tags": ["a", "b"],
            "clusterName": "w1",
        });
        let fields = json!({"f:status": {
            "f:conditions": {".": {}, "k:{\"type\":\"QuotaReserved\"}": {".": {}, "f:type": {}, "f:status": {}, "f:reason": {}}},
            "f:admission": {"f:clusterQueue": {}, "f:podSetAssignments": {"k:{\"name\":\"main\"}": {"f:count": {}}}},
            "f:tags": {"v:\"b\"": {}},
            "f:gone": {},
        }});
        let metadata: ObjectMeta = serde_json::from_value(json!({"managedFields": [
            {"manager": "kueue-admission", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {"f:clusterName": {}}}},
            {"manager": "kueue-admission", "operation": "Apply", "subresource": "status", "fieldsV1": fields},
        ]}))
        .unwrap();
        let expected = json!({
            "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "x"}],
            "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": 2}]},
            "tags": ["b"],
        });
        assert_eq!(owned(&metadata, "kueue-admission", &status), expected);
        assert_eq!(owned(&metadata, "somebody", &status), json!({}));
    }
}
