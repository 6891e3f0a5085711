//! Jobs as a list of order documents with the instants at which they are submitted.

use crate::{
    job::{Class, Job, Workload, WorkloadError},
    time::Micros,
};
use jiff::Timestamp;
use rhumb_model::{
    Order,
    document::{self, Form},
    quantity::Span,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One entry: `{submit: 2026-12-01T08:00:00Z, order: {...}, runs: 2h, owner: vision-lab}`; `runs` is how long the work
/// really takes where it is not what the order says, `owner` whose jobs durations are guessed from.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    submit: Timestamp,
    order: Value,
    #[serde(default)]
    runs: Option<Span>,
    #[serde(default)]
    owner: Option<String>,
    /// The same again, so many times in all.
    #[serde(default = "once")]
    times: u32,
}

fn once() -> u32 {
    1
}

/// Reads the list as YAML or JSON.
pub fn read(text: &str) -> Result<Workload, WorkloadError> {
    let value = document::value(text, Form::Yaml, document::MAX_LARGE_BYTES).map_err(WorkloadError::List)?;
    let entries: Vec<Entry> = document::convert(value).map_err(WorkloadError::List)?;
    let mut workload = Workload::default();
    let mut classes: BTreeMap<String, usize> = BTreeMap::new();
    let mut owners: BTreeMap<String, u32> = BTreeMap::new();
    for (index, mut entry) in entries.into_iter().enumerate() {
        let order = Order::from_value(entry.order.clone()).map_err(|source| WorkloadError::Order { index, source })?;
        // what an order is called does not change whether it fits
        if let Some(map) = entry.order.as_object_mut() {
            map.remove("name");
        }
        let class = *classes.entry(entry.order.to_string()).or_insert(workload.classes.len());
        if class == workload.classes.len() {
            workload.classes.push(Class::new(order));
        }
        let owner = entry.owner.map_or(0, |name| {
            let next = owners.len() as u32 + 1;
            *owners.entry(name).or_insert(next)
        });
        let runs = entry.runs.map(|span| Micros(span.micros() as i64));
        let job = Job { submit: Micros::from(entry.submit), class, runs, owner };
        workload.jobs.extend(std::iter::repeat_n(job, entry.times as usize));
    }
    workload.sorted()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: &str =
        "{class: training, components: [{name: t, need: {accelerators: {count: 2}}, work: {duration: 1h}}]";

    #[test]
    fn orders_that_differ_in_name_alone_are_one_class() {
        let entry = |name: &str, at: &str| format!("- {{submit: {at}, order: {ORDER}, name: {name}}}}}\n");
        let text = entry("b", "2026-12-01T09:00:00Z") + &entry("a", "2026-12-01T08:00:00Z");
        let workload = read(&text).unwrap();
        assert_eq!((workload.jobs.len(), workload.classes.len()), (2, 1));
        assert!(workload.jobs[0].submit < workload.jobs[1].submit);
        assert_eq!(workload.classes[0].devices, 2);
    }

    #[test]
    fn an_order_that_is_wrong_is_named() {
        let text = "- {submit: 2026-12-01T09:00:00Z, order: {name: x, class: training, components: []}}\n";
        assert!(matches!(read(text), Err(WorkloadError::Order { index: 0, .. })));
        let unknown = "- {submitt: 2026-12-01T09:00:00Z}\n";
        let error = read(unknown).unwrap_err();
        assert!(std::error::Error::source(&error).unwrap().to_string().contains("submit"));
    }
}
