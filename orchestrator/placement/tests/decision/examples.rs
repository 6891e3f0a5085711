//! The orders that ship with the project, on the federation that ships with it: each decision is the cheapest there is.

use crate::brute;
use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::{FederationFile, Order};
use rhumb_placement::{Policy, Request, audit, decide};
use std::{fs, path::Path};

#[test]
fn every_example_is_decided_as_the_cost_model_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("deploy/demo/federation.yaml")).unwrap();
    let view = View::from_file(&FederationFile::read(&text).unwrap()).unwrap();
    let policy = Policy::default();
    let mut seen = 0;
    for entry in fs::read_dir(root.join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "yaml") {
            continue;
        }
        seen += 1;
        let order = Order::read(&fs::read_to_string(&path).unwrap()).unwrap();
        // by day and by night in the east, one of them between two microseconds
        for submit in ["2026-11-30T02:35:24.123456789Z", "2026-12-01T15:50:00Z"] {
            let submit: Timestamp = submit.parse().unwrap();
            let request = Request::new(&order, submit);
            let decision = decide(&view, &request, &policy);
            let best = brute::best(&view, &order, submit, policy.staging_max.kbps());
            let total = decision.plan().map(|p| i128::from(p.cost.total_micros));
            assert_eq!(total, best.map(|b| b.total), "{}", path.display());
            if let Some(plan) = decision.plan() {
                assert!(plan.proven_optimal);
                assert_eq!(audit(plan, &request, &view, &policy), vec![], "{}", path.display());
            }
        }
    }
    assert!(seen > 0);
}
