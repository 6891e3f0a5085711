//! The reason given for a site is the first constraint in precedence without which a plan would use it, as a placer that
//! tries everything finds.

use crate::{
    brute,
    changes::SUBMIT,
    optimal::{document, federation, order, policy},
};
use jiff::Timestamp;
use proptest::prelude::*;
use rhumb_federation::View;
use rhumb_model::{FederationFile, Order, ReasonKind, refusal::VerdictKind};
use rhumb_placement::{Request, place};
use serde_json::{Value, json};

/// The documents without a constraint.
fn without(kind: ReasonKind, order: &Value, file: &Value) -> Option<(Value, Value)> {
    let (mut order, mut file) = (order.clone(), file.clone());
    match kind {
        ReasonKind::Budget => drop(order["terms"].as_object_mut()?.remove("budget")?),
        ReasonKind::PriceWindow => drop(order["terms"].as_object_mut()?.remove("window")?),
        // a deadline that costs money is no constraint
        ReasonKind::Deadline if order["terms"]["late_per_hour"].is_null() => {
            drop(order["terms"].as_object_mut()?.remove("deadline")?);
        }
        ReasonKind::Latency => {
            let flows = order["flows"].as_array_mut()?;
            let bound = |f: &&mut Value| !f["max_latency"].is_null();
            flows.iter_mut().filter(bound).for_each(|f| f["max_latency"] = json!("50s"));
        }
        ReasonKind::Bandwidth => {
            file["links"].as_array_mut()?.iter_mut().for_each(|l| l["capacity"] = json!("1000Gbps"));
        }
        ReasonKind::Encryption => order["constraints"]["encrypted"] = json!(false),
        _ => return None,
    }
    Some((order, file))
}

const KINDS: [ReasonKind; 6] = [
    ReasonKind::Budget,
    ReasonKind::PriceWindow,
    ReasonKind::Latency,
    ReasonKind::Bandwidth,
    ReasonKind::Encryption,
    ReasonKind::Deadline,
];

fn read(order: &Value, file: &Value) -> (Order, View) {
    let view = View::from_file(&FederationFile::read(&file.to_string()).unwrap()).unwrap();
    (Order::read(&order.to_string()).unwrap(), view)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_site_names_the_first_constraint_without_which_it_would_be_used(file in federation(), spec in order()) {
        let document = document(&spec);
        let (order, view) = read(&document, &file);
        let submit: Timestamp = SUBMIT.parse().unwrap();
        let policy = rhumb_placement::Policy { counterfactuals: 0, ..policy() };
        let decision = place(&view, &Request::new(&order, submit), &policy);
        let ranged = order.components.iter().any(|c| c.replicas.min != c.replicas.max);
        let totals: Vec<u32> = match decision.plan() {
            Some(plan) => plan.components.iter().map(|c| c.assignments.iter().map(|a| a.replicas).sum()).collect(),
            None if ranged => return Ok(()),
            None => order.components.iter().map(|c| c.replicas.min).collect(),
        };
        for (site, verdict) in decision.sites.iter().enumerate() {
            let Some(reason) = verdict.reason.as_ref().filter(|_| verdict.verdict == VerdictKind::Refused) else { continue };
            let helps = |kind: &ReasonKind| {
                without(*kind, &document, &file).is_some_and(|(order, file)| {
                    let (order, view) = read(&order, &file);
                    brute::best_using(&view, &order, submit, policy.staging_max.kbps(), &totals, site).is_some()
                })
            };
            if let Some(first) = KINDS.iter().find(|k| helps(k)) {
                prop_assert!(reason.reason <= *first, "{:?} of {:?}", reason, first);
                if KINDS.contains(&reason.reason) {
                    prop_assert_eq!(reason.reason, *first, "{:?}", reason);
                }
            }
        }
    }
}
