//! Orders as documents: the decision's own plan, price and path hold in the simulation.

use crate::checker;
use rhumb_federation::View;
use rhumb_model::{FederationFile, Ppm};
use rhumb_placement::{Request, decide, generate};
use rhumb_replay::{Durations, Policy, Replayed, Setup, Workload, orders, replay};

fn run(view: &View, workload: &Workload, policy: &str, durations: Durations) -> Replayed {
    let policy = Policy::named(policy).unwrap();
    let setup = Setup { view, workload, policy: &policy, seed: 1, durations, noise: Ppm::ZERO, happenings: &[] };
    let done = replay(setup).unwrap();
    checker::check(view, workload, &done.journal);
    done
}

#[test]
fn a_lone_order_starts_ends_and_costs_what_its_plan_says() {
    let view = View::from_file(&generate::federation(generate::Size::of(6), 3)).unwrap();
    let policy = rhumb_placement::Policy { node_budget: 2_000, ..rhumb_placement::Policy::default() };
    let mut planned = 0;
    for order in generate::orders(6, 40, 3) {
        let at: jiff::Timestamp = "2026-12-01T03:17:00Z".parse().unwrap();
        let Ok(plan) = decide(&view, &Request::new(&order, at), &policy).outcome else { continue };
        planned += 1;
        let text = serde_json::json!([{"submit": at, "order": order}]).to_string();
        let done = run(&view, &orders::read(&text).unwrap(), "rhumb", Durations::Hidden).figures;
        let seconds = |t: jiff::Timestamp| t.duration_since(at).as_micros() as f64 / 1e6;
        assert!((done.queue_s.mean - seconds(plan.start)).abs() < 1e-4, "{} {:?}", order.name, plan);
        assert!((done.completion_s.mean - seconds(plan.finish)).abs() < 1e-4, "{} {:?}", order.name, plan);
        // told how long it runs, the replay's own bill is the plan's
        let hours = plan.finish.duration_since(plan.start);
        let whole = order.components.iter().all(|c| c.need.accelerators.as_ref().is_none_or(|a| a.count.is_some()));
        let outbound =
            order.flows.iter().any(|f| f.volume.is_some() && matches!(f.to, rhumb_model::order::End::Dataset(_)));
        if order.components.len() == 1 && whole && !outbound {
            let runs = format!("{}us", hours.as_micros());
            let text = serde_json::json!([{"submit": at, "order": order, "runs": runs}]).to_string();
            let priced = run(&view, &orders::read(&text).unwrap(), "rhumb", Durations::Hidden).figures;
            let (a, b) = (priced.cost_per_accelerator_hour_micros, done.cost_per_accelerator_hour_micros);
            assert!((a - b).abs() <= 1 + b / 1_000_000, "{}: {a} {b}", order.name);
        }
    }
    assert!(planned > 20, "{planned}");
}

#[test]
fn orders_of_every_kind_share_a_federation_without_taking_anything_twice() {
    let view = View::from_file(&generate::federation(generate::Size::of(6), 5)).unwrap();
    let entries: Vec<_> = generate::orders(6, 120, 5)
        .iter()
        .enumerate()
        .map(|(i, order)| serde_json::json!({"submit": format!("2026-12-01T{:02}:{:02}:00Z", i / 60, i % 60), "order": order}))
        .collect();
    let workload = orders::read(&serde_json::Value::from(entries).to_string()).unwrap();
    for policy in ["rhumb", "fifo", "fgd"] {
        let done = run(&view, &workload, policy, Durations::Hidden);
        assert!(done.figures.rejected < 30, "{policy}: {:?}", done.figures);
    }
}

#[test]
fn work_runs_in_the_cheap_hours_that_it_may_wait_for() {
    let text = "
currency: CNY
devices: {H100: {memory: 80GiB, fp16: 1}}
sites:
  - {name: a, prices: {H100: 10 CNY, windows: [{from: \"22:00\", to: \"08:00\", tz: UTC, factor: 0.5}]}, nodes: [{accelerators: {model: H100, count: 8}}]}
";
    let view = View::from_file(&FederationFile::read(text).unwrap()).unwrap();
    let job = "- {submit: 2026-01-01T20:00:00Z, order: {name: t, class: tuning, terms: {deadline: 2026-01-02T12:00:00Z}, \
               components: [{name: c, need: {accelerators: {count: 1}}, work: {duration: 2h}}]}}\n";
    let done = run(&view, &orders::read(job).unwrap(), "rhumb", Durations::Hidden).figures;
    assert!((done.queue_s.mean - 7_200.0).abs() < 1e-6);
    assert_eq!(done.cost_per_accelerator_hour_micros, 5_000_000);
}
