//! Parts of devices: shares, slices, and what a taken part leaves.

use crate::world::{order, submit, view};
use rhumb_federation::{View, export::export};
use rhumb_model::{FederationFile, Order, Plan, Reason, ReasonKind};
use rhumb_placement::{Policy, Request, apply, audit, decide};

fn try_plan(view: &View, order: &Order) -> Result<Plan, Vec<Reason>> {
    let request = Request::new(order, submit());
    let plan = decide(view, &request, &Policy::default()).outcome?;
    assert_eq!(audit(&plan, &request, view, &Policy::default()), vec![]);
    Ok(plan)
}

/// Places orders one after the other on what is left; which of them got a place.
fn in_turn(file: &str, orders: &[&str]) -> (Vec<bool>, View) {
    let mut left = view(file);
    let placed = orders.iter().map(|text| {
        let order = order(text);
        let Ok(plan) = try_plan(&left, &order) else { return false };
        left = apply(&left, &plan, &order).unwrap();
        // an exported view says the same
        let text = serde_json::to_string(&export(&left, submit())).unwrap();
        let again = View::from_file(&FederationFile::read(&text).unwrap()).unwrap();
        assert_eq!(again.sites[0].nodes, left.sites[0].nodes);
        true
    });
    (placed.collect(), left)
}

fn one(need: &str) -> String {
    format!(
        "name: t\nclass: inference\ncomponents: [{{name: c, need: {{accelerators: {need}}}, work: {{duration: 2h}}}}]"
    )
}

fn card(memory: &str, group: &str) -> String {
    format!(
        "currency: CNY\ndevices: {{G: {{memory: {memory}, fp16: 1}}}}\nsites: [{{name: a, prices: {{G: 8 CNY}}, nodes: [{{accelerators: {{model: G, {group}}}}}]}}]"
    )
}

#[test]
fn a_card_given_away_whole_takes_nobody_else() {
    let file = card("24576MiB", "count: 1");
    let (x, y) = (one("{share: 100%, memory: 1000MiB}"), one("{share: 1%, memory: 1000MiB}"));
    assert_eq!(in_turn(&file, &[&x, &y]).0, [true, false]);
    assert_eq!(in_turn(&file, &[&y, &x]).0, [true, false]);
    let whole = one("{count: 1}");
    assert_eq!(in_turn(&file, &[&whole, &y]).0, [true, false]);
    assert_eq!(in_turn(&file, &[&y, &whole]).0, [true, false]);
    // another card takes it
    assert_eq!(in_turn(&card("24576MiB", "count: 2"), &[&x, &y]).0, [true, true]);
}

#[test]
fn memory_of_shares_never_adds_up_to_more_than_the_card_has() {
    let each = one("{share: 5%, memory: 2000MiB}");
    let (placed, left) = in_turn(&card("30500MiB", "count: 1"), &vec![each.as_str(); 16]);
    assert_eq!(placed.iter().filter(|p| **p).count(), 15);
    assert!(!placed[15]);
    assert_eq!(left.sites[0].nodes[0].shape.groups[0].partial, [(250, "500MiB".parse().unwrap())]);
    // shares without a memory of their own take that share of it
    assert_eq!(
        in_turn(&card("30500MiB", "count: 1"), &[one("{share: 33.3%}").as_str(); 4]).0,
        [true, true, true, false]
    );
}

#[test]
fn a_slice_costs_its_memorys_part_of_the_device() {
    let file = card("80GiB", "count: 2, mig: any");
    let plan = try_plan(&view(&file), &order(&one("{mig: 3g.40gb, count: 1}"))).unwrap();
    // half of 8 CNY, for two hours
    assert_eq!((plan.cost.total_micros, plan.components[0].assignments[0].devices_per_replica), (8_000_000, 1));
    let plan = try_plan(&view(&file), &order(&one("{mig: 1g.10gb, count: 3}"))).unwrap();
    assert_eq!((plan.cost.total_micros, plan.components[0].assignments[0].devices_per_replica), (6_000_000, 3));
}

#[test]
fn slices_are_had_only_where_an_arrangement_of_all_exists() {
    let any = card("80GiB", "count: 1, mig: any");
    let [one_g, two, three, four, seven] =
        ["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"].map(|p| one(&format!("{{mig: {p}}}")));
    // seven slices of one, not eight, and a whole device no more
    let mut all = vec![one_g.as_str(); 8];
    let whole = one("{count: 1}");
    all.push(&whole);
    assert_eq!(in_turn(&any, &all).0, [[true; 7].as_slice(), &[false; 2]].concat());
    assert_eq!(in_turn(&any, &[&three, &one_g, &three, &two]).0, [true, true, false, true]);
    assert_eq!(in_turn(&any, &[&one_g, &four, &two]).0, [true, true, true]);
    assert_eq!(in_turn(&any, &[&four, &four, &three]).0, [true, false, true]);
    assert_eq!(in_turn(&any, &[&one_g, &seven]).0, [true, false]);
    assert_eq!(in_turn(&any, &[&whole, &one_g]).0, [true, false]);
    let media = one("{mig: 1g.10gb+me}");
    assert_eq!(in_turn(&any, &[&media, &media, &one_g]).0, [true, false, true]);
    // cut for good: those slices and no others, and the other device whole
    let cut = card("80GiB", "count: 2, mig: {3g.40gb: 1, 2g.20gb: 1}");
    assert_eq!(in_turn(&cut, &[&one_g, &two, &two, &three, &whole, &whole]).0, [false, true, false, true, true, false]);
}

#[test]
fn a_slice_that_is_not_there_is_a_matter_of_shape_and_one_that_is_taken_of_capacity() {
    let why = |file: &str, text: &str| try_plan(&view(file), &order(text)).unwrap_err().remove(0);
    let none = why(&card("80GiB", "count: 1"), &one("{mig: 3g.40gb}"));
    assert_eq!(
        (none.reason, none.needed.as_str(), none.free.as_str()),
        (ReasonKind::Shape, "slices 3g.40gb", "no such slices")
    );
    assert_eq!(why(&card("40GiB", "count: 1, mig: any"), &one("{mig: 3g.40gb}")).reason, ReasonKind::Shape);
    // enough memory slices, but none of the places at which a half may begin
    let spoiled = "count: 0, mig: any, slices: [{taken: [1, 5]}]";
    let shape = why(&card("80GiB", spoiled), &one("{mig: 3g.40gb}"));
    assert_eq!((shape.reason, shape.free.as_str()), (ReasonKind::Shape, "no such slices"));
    let file = card("80GiB", "count: 1, mig: any");
    let (_, left) = in_turn(&file, &[&one("{mig: 3g.40gb}"), &one("{mig: 1g.10gb, count: 3}")]);
    let full = try_plan(&left, &order(&one("{mig: 3g.40gb}"))).unwrap_err().remove(0);
    assert_eq!(
        (full.reason, full.free.as_str()),
        (ReasonKind::Capacity, "at most 0 x 3g.40gb on one node, room for 0")
    );
}

#[test]
fn one_node_must_hold_a_replica_and_a_refused_site_says_its_largest() {
    let file = "
currency: CNY
devices: {G: {memory: 80GiB, fp16: 1}}
sites:
  - {name: s1, prices: {G: 1 CNY}, nodes: [{count: 5, accelerators: {model: G, count: 3}}]}
  - {name: s2, prices: {G: 2 CNY}, nodes: [{accelerators: {model: G, count: 8}}]}";
    let order = order(&one("{count: 4}"));
    let decision = rhumb_placement::place(&view(file), &Request::new(&order, submit()), &Policy::default());
    assert_eq!(decision.plan().unwrap().components[0].assignments[0].site.as_str(), "s2");
    let why = decision.sites[0].reason.as_ref().unwrap();
    assert_eq!(why.reason, ReasonKind::Shape);
    assert!(why.free.starts_with("at most 3 x G"), "{why:?}");
}
