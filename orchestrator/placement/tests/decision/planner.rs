//! A planner that has decided, applied and folded in answers as a fresh one on the same view.

use super::{
    optimal::{document, federation, order},
    world::SUBMIT,
};
use jiff::Timestamp;
use proptest::prelude::*;
use rhumb_federation::View;
use rhumb_model::{Bandwidth, FederationFile, Latency, Order, state::SiteState};
use rhumb_placement::{LinkNow, Planner, Policy, Request, decide};

#[derive(Debug, Clone)]
enum Step {
    /// Decide on an order and take what its plan takes.
    Apply(usize),
    /// A site reports: another state, or everything free again.
    Site(usize, bool),
    /// A link: free capacity in Mbit/s, delay in ms, age.
    Link(usize, u64, u64, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_usize..3).prop_map(Step::Apply),
        1 => (0_usize..8, any::<bool>()).prop_map(|(s, up)| Step::Site(s, up)),
        2 => (0_usize..16, 0_u64..12, 1_u64..30, prop::bool::weighted(0.2)).prop_map(|(l, f, d, s)| Step::Link(l, f, d, s)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_planner_with_a_past_answers_as_a_new_one(
        file in federation(),
        specs in prop::collection::vec(order(), 3),
        steps in prop::collection::vec(step(), 1..8),
    ) {
        let view = View::from_file(&FederationFile::read(&file.to_string()).unwrap()).unwrap();
        let orders: Vec<Order> = specs.iter().map(|s| Order::read(&document(s).to_string()).unwrap()).collect();
        let submit: Timestamp = SUBMIT.parse().unwrap();
        let policy = Policy { staging_max: Bandwidth::from_mbps(5), ..Policy::default() };
        let mut planner = Planner::new(view);
        for step in steps {
            match step {
                Step::Apply(order) => {
                    let order = &orders[order];
                    let decision = planner.decide(&Request::new(order, submit), &policy);
                    if let Ok(plan) = &decision.outcome {
                        prop_assert!(planner.apply(plan, order).is_ok());
                    }
                }
                Step::Site(site, up) => {
                    let sites = &planner.view().sites;
                    let mut site = sites[site % sites.len()].clone();
                    site.nodes.clone_from(&site.whole);
                    site.site.state = if up { SiteState::Ready } else { SiteState::Draining };
                    planner.replace_site(site);
                }
                Step::Link(link, free, latency, stale) => {
                    let ids: Vec<_> = planner.view().links.keys().cloned().collect();
                    if let Some(id) = ids.get(link % ids.len().max(1)) {
                        let latency = Latency::from_micros(latency * 1000);
                        planner.set_link(id, LinkNow { free: Bandwidth::from_mbps(free), latency, stale });
                    }
                }
            }
            for order in &orders {
                let request = Request::new(order, submit);
                prop_assert_eq!(planner.decide(&request, &policy), decide(planner.view(), &request, &policy));
            }
        }
    }
}

#[test]
fn what_cannot_be_applied_changes_nothing() {
    let view =
        super::world::view("currency: CNY\nsites: [{name: a, prices: {cpu: 1 CNY}, nodes: [{count: 1, cpu: 4}]}]\n");
    let order = super::world::order(
        "name: o\nclass: processing\ncomponents: [{name: c, need: {cpu: 3}, work: {duration: 1h}}]\n",
    );
    let policy = Policy::default();
    let mut planner = Planner::new(view);
    let decision = planner.decide(&Request::new(&order, super::world::submit()), &policy);
    let plan = decision.plan().unwrap();
    planner.apply(plan, &order).unwrap();
    let before = planner.view().sites[0].nodes.clone();
    assert!(planner.apply(plan, &order).is_err());
    assert_eq!(planner.view().sites[0].nodes, before);
}
