//! Every change that a refusal offers is made in the documents themselves and placed again: it helps, at the cost that is
//! said, and a smaller one of its kind does not.

use crate::optimal::{document, federation, order, policy};
use jiff::Timestamp;
use proptest::prelude::*;
use rhumb_federation::View;
use rhumb_model::{FederationFile, Order, refusal::Change};
use rhumb_placement::{Policy, Request, decide, place};
use serde_json::{Value, json};

pub const SUBMIT: &str = "2026-11-30T12:17:00Z";

fn number(text: &str) -> u64 {
    text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// A list as it is written: "none" and "any" are empty.
fn listed(text: &str) -> Value {
    if matches!(text, "none" | "any") { json!([]) } else { json!(text.split(", ").collect::<Vec<_>>()) }
}

fn named<'v>(file: &'v mut Value, list: &str, key: &str, name: &str) -> &'v mut Value {
    let all = file[list].as_array_mut().unwrap();
    all.iter_mut().find(|e| e[key] == name).unwrap_or_else(|| panic!("no {list} {name}"))
}

/// The half of a link that a directed id names, as an entry of its own.
fn directed<'v>(file: &'v mut Value, id: &str) -> &'v mut Value {
    let forth = id.trim_end_matches('~');
    let entry = named(file, "links", "id", forth);
    if entry["both_ways"] == true {
        entry["both_ways"] = json!(false);
        let mut back = entry.clone();
        back["id"] = json!(format!("{forth}~"));
        (back["from"], back["to"]) = (entry["to"].clone(), entry["from"].clone());
        file["links"].as_array_mut().unwrap().push(back);
    }
    named(file, "links", "id", id)
}

/// The nodes of a site, one entry each.
fn nodes<'v>(file: &'v mut Value, site: &str) -> &'v mut Vec<Value> {
    named(file, "sites", "name", site)["nodes"].as_array_mut().unwrap()
}

/// Makes `more` devices of a model on the node that has the most of them.
fn grow(file: &mut Value, site: &str, more: u64, model: &str) {
    let nodes = nodes(file, site);
    let devices =
        |n: &Value| if n["accelerators"]["model"] == model { n["accelerators"]["count"].as_u64().unwrap() } else { 0 };
    let index = (0..nodes.len()).max_by_key(|i| devices(&nodes[*i])).unwrap();
    let mut one = nodes[index].clone();
    let had = devices(&one);
    if nodes[index]["count"].as_u64().unwrap_or(1) == 1 {
        nodes.remove(index);
    } else {
        nodes[index]["count"] = json!(nodes[index]["count"].as_u64().unwrap() - 1);
    }
    one["count"] = json!(1);
    one["accelerators"]["count"] = json!(had + more);
    if one["accelerators"]["islands"].is_array() {
        one["accelerators"]["islands"] = json!([had + more]);
    }
    nodes.push(one);
}

/// Adds a node so often that has these devices.
fn add_nodes(file: &mut Value, site: &str, more: u64, (count, model): (&str, &str)) {
    // an export names the empty node where some are taken
    let installed = named(file, "sites", "name", site)["installed"].as_array().cloned().unwrap_or_default();
    let nodes = nodes(file, site);
    let same =
        |n: &&Value| n["accelerators"]["model"] == model && n["accelerators"]["count"].as_u64() == count.parse().ok();
    let mut one = installed.iter().chain(nodes.iter()).find(same).unwrap().clone();
    one["count"] = json!(more);
    nodes.push(one);
}

/// The documents with the change made; `None`: there is nothing smaller of its kind.
fn made(change: &Change, order: &Value, file: &Value, smaller: bool) -> Option<(Value, Value)> {
    let (mut order, mut file) = (order.clone(), file.clone());
    let keys: Vec<&str> = change.pointer.split('/').skip(1).collect();
    let less = |n: u64, towards: u64| if n > towards { n - 1 } else { n + 1 };
    match keys.as_slice() {
        ["sites", site, "state"] => {
            named(&mut file, "sites", "name", site)["state"] = json!(change.to);
            return (!smaller).then_some((order, file));
        }
        ["sites", site, "nodes"] => {
            let more = number(&change.to) - u64::from(smaller);
            if more == 0 {
                return None;
            }
            let words: Vec<&str> = change.to.split(' ').collect();
            match words.as_slice() {
                [_, "more", model, "on", "one", "node"] => grow(&mut file, site, more, model),
                [_, "more,", "each", count, "x", model, ..] => {
                    add_nodes(&mut file, site, more, (*count, model.trim_end_matches(',')));
                }
                other => panic!("{other:?}"),
            }
        }
        ["links", id, key @ ("encrypted" | "stale")] => {
            directed(&mut file, id)[*key] = json!(change.to == "true");
            return (!smaller).then_some((order, file));
        }
        ["links", id, "capacity"] => {
            let kbps = rate(&change.to) - u64::from(smaller);
            directed(&mut file, id)["capacity"] = json!(format!("{kbps}kbps"));
        }
        ["links", id, "latency"] => {
            let us = latency(&change.to) + u64::from(smaller);
            directed(&mut file, id)["latency"] = json!(format!("{us}us"));
        }
        ["at"] => {
            file["at"] = json!(change.to);
            return (!smaller).then_some((order, file));
        }
        _ => {
            let last = *keys.last().unwrap();
            let value = match last {
                "count" | "replicas" | "max_sites" | "min" | "max" => {
                    let (to, from) = (number(&change.to), number(&change.from));
                    json!(if smaller { less(to, from) } else { to })
                }
                "max_latency" => json!(format!("{}us", latency(&change.to) - u64::from(smaller))),
                "rate" => json!(format!("{}kbps", rate(&change.to) + u64::from(smaller))),
                "deadline" => {
                    let to: Timestamp = change.to.parse().unwrap();
                    json!((to - jiff::SignedDuration::from_secs(i64::from(smaller))).to_string())
                }
                "models" | "jurisdictions" | "labels" | "sites" | "not_sites" | "colocate" if !smaller => {
                    listed(&change.to)
                }
                "encrypted" | "copy" if !smaller => json!(change.to == "true"),
                "spread" | "window" if !smaller && change.to == "none" => Value::Null,
                "window" if !smaller => {
                    let words: Vec<&str> = change.to.split(' ').collect();
                    json!({"from": words[0], "to": words[2], "tz": words[3]})
                }
                "budget" | "volume" | "cpu" | "memory" | "interconnect" | "precision" | "share" | "spread"
                | "demand"
                    if !smaller =>
                {
                    json!(change.to)
                }
                _ if smaller => return None,
                other => panic!("{other}: {change:?}"),
            };
            let slot = order.pointer_mut(&change.pointer).unwrap_or_else(|| panic!("{change:?}"));
            *slot = value;
            if last == "spread" && slot.is_null() {
                let place = change.pointer.strip_suffix("/spread").unwrap();
                order.pointer_mut(place).unwrap().as_object_mut().unwrap().remove("spread");
            }
        }
    }
    Some((order, file))
}

fn rate(text: &str) -> u64 {
    serde_json::from_value::<rhumb_model::Bandwidth>(json!(text)).unwrap().kbps()
}

fn latency(text: &str) -> u64 {
    serde_json::from_value::<rhumb_model::Latency>(json!(text)).unwrap().micros()
}

/// Total of the plan for documents at their own instant.
fn total(order: &Value, file: &Value, policy: &Policy) -> Option<i64> {
    let file = FederationFile::read(&file.to_string()).unwrap();
    let submit = file.at.unwrap_or_else(|| SUBMIT.parse().unwrap());
    let order = Order::read(&order.to_string()).ok()?;
    let view = View::from_file(&file).unwrap();
    decide(&view, &Request::new(&order, submit), policy).plan().map(|p| p.cost.total_micros)
}

/// Proves every change of the refusal; gives the pointers.
pub fn proved(order: &Value, file: &Value, policy: &Policy) -> Vec<Change> {
    let read = FederationFile::read(&file.to_string()).unwrap();
    let view = View::from_file(&read).unwrap();
    let document = Order::read(&order.to_string()).unwrap();
    let submit = read.at.unwrap_or_else(|| SUBMIT.parse().unwrap());
    let decision = place(&view, &Request::new(&document, submit), policy);
    for change in &decision.would_fit_if {
        let (changed, federation) = made(change, order, file, false).unwrap();
        assert_eq!(total(&changed, &federation, policy), Some(change.cost_micros), "{change:?}");
        if let Some((changed, federation)) = made(change, order, file, true) {
            assert_eq!(total(&changed, &federation, policy), None, "smaller than {change:?}");
        }
    }
    decision.would_fit_if
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_change_that_would_help_does_and_nothing_smaller(file in federation(), spec in order()) {
        proved(&document(&spec), &file, &policy());
    }
}
