//! What `rhumb place -o json` prints.

use crate::{batch::Batch, decision::Decision};
use serde_json::{Map, Value, json};

/// One decision; `decision_us` is how long it took, as the caller measured it.
pub fn decision_json(decision: &Decision, decision_us: u64) -> Value {
    let mut object = Map::new();
    let sites = json!(decision.sites);
    match &decision.outcome {
        Ok(plan) => {
            object.insert("outcome".to_owned(), json!("plan"));
            object.insert("plan".to_owned(), json!(plan));
            object.insert("sites".to_owned(), sites);
            object.insert("decision_us".to_owned(), json!(decision_us));
        }
        Err(reasons) => {
            object.insert("outcome".to_owned(), json!("refusal"));
            object.insert("reasons".to_owned(), json!(reasons));
            object.insert("would_fit_if".to_owned(), json!(decision.would_fit_if));
            object.insert("sites".to_owned(), sites);
        }
    }
    Value::Object(object)
}

/// A batch: one answer per order, in input order, and the figures of all.
pub fn batch_json(batch: &Batch, decision_us: u64) -> Value {
    // the time is of the batch: orders are not timed one by one
    let plans: Vec<Value> = batch.decisions.iter().map(|d| decision_json(d, decision_us)).collect();
    json!({
        "plans": plans,
        "total_micros": batch.total_micros,
        "lower_bound_micros": batch.lower_bound_micros,
        "gap_ppm": batch.gap_ppm,
    })
}
