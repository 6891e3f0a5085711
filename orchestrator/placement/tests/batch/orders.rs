//! Orders on a view, decided on together: against trying every site for every order, and against one after the other.

use jiff::Timestamp;
use proptest::prelude::*;
use rhumb_federation::View;
use rhumb_model::{FederationFile, Order, ReasonKind};
use rhumb_placement::{Batch, Policy, Request, apply, audit, decide, place_batch};

fn submit() -> Timestamp {
    "2026-11-30T12:17:00Z".parse().unwrap()
}

/// Three sites around one that has the data and no devices; per site: nodes of four devices, price, Mbit/s of its link.
fn view(sites: [(u32, u32, u32); 3]) -> View {
    let site = |(i, (nodes, price, _)): (usize, &(u32, u32, u32))| {
        format!(
            "  - {{name: s{i}, prices: {{H100: {price} CNY}}, nodes: [{{count: {nodes}, accelerators: {{model: H100, count: 4}}, cpu: 64, memory: 512GiB}}]}}\n"
        )
    };
    let link = |(i, (.., mbps)): (usize, &(u32, u32, u32))| {
        format!(
            "  - {{id: l{i}, from: hub, to: s{i}, capacity: {mbps}Mbps, latency: 5ms, per_mbps_hour: 0.00{} CNY}}\n",
            i + 1
        )
    };
    let text = format!(
        "currency: CNY\ndevices: {{H100: {{memory: 80GiB, fp16: 1}}}}\nsites:\n  - {{name: hub}}\n{}links:\n{}datasets: [{{name: d, size: 1GB, at: [hub]}}]\n",
        sites.iter().enumerate().map(site).collect::<String>(),
        sites.iter().enumerate().map(link).collect::<String>(),
    );
    View::from_file(&FederationFile::read(&text).unwrap()).unwrap()
}

#[derive(Debug, Clone)]
struct Ask {
    nodes: u32,
    mbps: u32,
    hours: u32,
    at: [bool; 3],
    value: Option<u32>,
    priority: u8,
}

fn order(index: usize, ask: &Ask) -> Order {
    let sites: Vec<String> = (0..3).filter(|s| ask.at[*s]).map(|s| format!("s{s}")).collect();
    let constraints =
        if sites.is_empty() { String::new() } else { format!("constraints: {{sites: [{}]}}\n", sites.join(", ")) };
    let value = ask.value.map_or(String::new(), |v| format!(", value: {v} CNY"));
    Order::read(&format!(
        "name: o{index}\nclass: training\ncomponents: [{{name: main, replicas: {}, need: {{accelerators: {{count: 4, models: [H100], interconnect: site}}}}, work: {{duration: {}h}}}}]\nflows: [{{from: dataset/d, to: main, rate: {}Mbps}}]\n{constraints}terms: {{priority: {}{value}}}\n",
        ask.nodes, ask.hours, ask.mbps, ask.priority,
    ))
    .unwrap()
}

prop_compose! {
    fn ask(priorities: &'static [u8])(
        nodes in 1..3_u32, mbps in 1..5_u32, hours in 1..4_u32, at in any::<[bool; 3]>(),
        value in proptest::option::weighted(0.4, 10..200_u32), priority in proptest::sample::select(priorities),
    ) -> Ask {
        Ask { nodes, mbps: mbps * 100, hours, at, value, priority }
    }
}

prop_compose! {
    fn world()(sites in [(1..4_u32, 1..9_u32, 2..8_u32), (1..4_u32, 1..9_u32, 2..8_u32), (1..4_u32, 1..9_u32, 2..8_u32)]) -> [(u32, u32, u32); 3] {
        sites.map(|(nodes, price, mbps)| (nodes, price, mbps * 100))
    }
}

/// Orders without a value left undone, then micro-units.
type Score = (usize, i64);

fn value(order: &Order) -> Option<i64> {
    order.terms.value.map(|v| rhumb_model::ratio::whole_micros(v.micros()))
}

fn score(orders: &[Order], totals: impl Iterator<Item = Option<i64>>) -> Score {
    orders.iter().zip(totals).fold((0, 0), |(undone, sum), (order, total)| match (total, value(order)) {
        (Some(total), _) => (undone, sum + total),
        (None, Some(value)) => (undone, sum + value),
        (None, None) => (undone + 1, sum),
    })
}

/// The least score over every site for every order.
fn every(view: &View, orders: &[Order], taken: &mut Vec<Option<i64>>, best: &mut Option<Score>) {
    let Some(order) = orders.get(taken.len()) else {
        let found = score(orders, taken.iter().copied());
        if best.is_none_or(|b| found < b) {
            *best = Some(found);
        }
        return;
    };
    taken.push(None);
    every(view, orders, taken, best);
    taken.pop();
    for site in 0..3 {
        let mut there = order.clone();
        let name = format!("s{site}").parse().unwrap();
        if order.constraints.sites.iter().any(|s| *s != name) && !order.constraints.sites.contains(&name) {
            continue;
        }
        there.constraints.sites = [name].into_iter().collect();
        let Ok(plan) = decide(view, &Request::new(&there, submit()), &Policy::default()).outcome else { continue };
        let left = apply(view, &plan, order).unwrap();
        taken.push(Some(plan.cost.total_micros));
        every(&left, orders, taken, best);
        taken.pop();
    }
}

fn place(view: &View, orders: &[Order]) -> Batch {
    let requests: Vec<_> = orders.iter().map(|o| Request::new(o, submit())).collect();
    place_batch(view, &requests, &Policy::default())
}

fn totals(batch: &Batch) -> Vec<Option<i64>> {
    batch.decisions.iter().map(|d| d.plan().map(|p| p.cost.total_micros)).collect()
}

/// One after the other as they come, each at its cheapest.
fn in_turn(view: &View, orders: &[Order]) -> Score {
    let mut left = view.clone();
    let mut taken = Vec::new();
    for order in orders {
        let plan = decide(&left, &Request::new(order, submit()), &Policy::default()).outcome.ok();
        if let Some(plan) = &plan {
            left = apply(&left, plan, order).unwrap();
        }
        taken.push(plan.map(|p| p.cost.total_micros));
    }
    score(orders, taken.into_iter())
}

/// Plans keep every rule beside each other, and the figures are of these plans.
fn sound(view: &View, orders: &[Order], batch: &Batch) {
    let mut left = view.clone();
    for (order, decision) in orders.iter().zip(&batch.decisions) {
        match &decision.outcome {
            Ok(plan) => {
                let request = Request::new(order, submit());
                assert_eq!(audit(plan, &request, &left, &Policy::default()), vec![]);
                left = apply(&left, plan, order).unwrap();
            }
            Err(reasons) => assert!(!reasons.is_empty()),
        }
    }
    let (_, total) = score(orders, totals(batch).into_iter());
    assert_eq!(batch.total_micros, total);
    assert!(batch.lower_bound_micros <= total);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_batch_of_equals_is_never_worse_than_one_by_one_nor_better_than_every_way(sites in world(), asks in proptest::collection::vec(ask(&[50]), 1..5)) {
        let view = view(sites);
        let orders: Vec<Order> = asks.iter().enumerate().map(|(i, a)| order(i, a)).collect();
        let batch = place(&view, &orders);
        sound(&view, &orders, &batch);
        let mut best = None;
        every(&view, &orders, &mut Vec::new(), &mut best);
        let best = best.unwrap();
        let found = score(&orders, totals(&batch).into_iter());
        // the search for which order to leave undone is not exhaustive
        prop_assert!(best <= found && found <= in_turn(&view, &orders), "{found:?} {best:?}");
        prop_assert!(found != best || batch.lower_bound_micros <= best.1);
    }

    #[test]
    fn urgent_orders_are_placed_as_if_others_were_not_there(sites in world(), asks in proptest::collection::vec(ask(&[10, 90]), 2..6)) {
        let view = view(sites);
        let orders: Vec<Order> = asks.iter().enumerate().map(|(i, a)| order(i, a)).collect();
        let batch = place(&view, &orders);
        sound(&view, &orders, &batch);
        let urgent: Vec<Order> = orders.iter().filter(|o| o.terms.priority == Some(90)).cloned().collect();
        let alone = place(&view, &urgent);
        let undone = |b: &Batch, of: &[Order]| {
            of.iter().zip(&b.decisions).filter(|(o, d)| o.terms.priority == Some(90) && d.plan().is_none() && value(o).is_none()).count()
        };
        prop_assert!(undone(&batch, &orders) <= undone(&alone, &urgent));
    }

    #[test]
    fn a_batch_is_never_worse_than_one_after_the_other_and_its_order_does_not_matter(
        sites in world(), asks in proptest::collection::vec(ask(&[50]), 1..8), turn in 0..8_usize,
    ) {
        let view = view(sites);
        let orders: Vec<Order> = asks.iter().enumerate().map(|(i, a)| order(i, a)).collect();
        let batch = place(&view, &orders);
        sound(&view, &orders, &batch);
        prop_assert!(score(&orders, totals(&batch).into_iter()) <= in_turn(&view, &orders));
        let mut turned = orders.clone();
        turned.rotate_left(turn % orders.len());
        let mut other = place(&view, &turned);
        other.decisions.rotate_right(turn % orders.len());
        prop_assert_eq!(batch, other);
    }
}

#[test]
fn an_order_worth_less_than_its_plan_is_left_undone_and_told_why() {
    let view = view([(1, 2, 500), (1, 9, 500), (1, 9, 500)]);
    let ask = Ask { nodes: 1, mbps: 100, hours: 1, at: [true, true, false], value: None, priority: 50 };
    // the cheap node goes to the order that must be done: the other would have to pay 36 CNY and more elsewhere
    let orders = [order(0, &Ask { value: Some(20), ..ask.clone() }), order(1, &ask)];
    let batch = place(&view, &orders);
    sound(&view, &orders, &batch);
    let reasons = batch.decisions[0].outcome.as_ref().unwrap_err();
    assert_eq!(reasons[0].reason, ReasonKind::Budget);
    assert!(
        reasons[0].needed.contains("CNY for the cheapest plan") && reasons[0].free.starts_with("20 CNY"),
        "{reasons:?}"
    );
    assert_eq!(batch.decisions[1].plan().unwrap().components[0].assignments[0].site.as_str(), "s0");
    // 4 x 2 CNY and 100 x 0.001 CNY for the one, 20 CNY for leaving the other
    assert_eq!(batch.total_micros, 8_100_000 + 20_000_000);
    // each alone would cost 8.1 CNY: the bound sees that one node is not enough for both
    assert!(batch.lower_bound_micros > 27_000_000, "{}", batch.lower_bound_micros);
}
