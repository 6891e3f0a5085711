//! Inventories and parts of devices, from report to lease.

use crate::world::{World, is};
use rhumb_model::{
    OrderState, Phase,
    site::{Health, Piece},
};
use rhumb_store::Store;
use rhumb_wire::{AssignmentGoal, DevicePart, Fares, Report, Teller};
use uuid::Uuid;

/// One host with a whole device and two in slices.
const SLICED: &str = "
currency: CNY
devices:
  H100: {memory: 80GiB, fp16: 1.0}
sites:
  - {name: east, jurisdiction: CN, prices: {H100: 8 CNY}, nodes: [{accelerators: {model: H100, count: 3, mig: {3g.40gb: 3}}, cpu: 96, memory: 1TiB}]}
";

fn part(name: &str, accelerators: &str) -> String {
    format!(
        "name: {name}\nclass: inference\ncomponents:\n  - name: model\n    need: {{accelerators: {accelerators}}}\n    \
         work: {{duration: 6s}}\n    run: {{command: [\"true\"]}}\n"
    )
}

/// The pieces that live orders hold.
async fn held(world: &World) -> Vec<String> {
    let holdings = world.store.holdings().await.unwrap();
    let mut pieces: Vec<u32> = holdings.replicas.iter().flat_map(|h| h.devices.clone()).collect();
    pieces.sort_unstable();
    pieces.into_iter().map(|n| Piece::of(n).to_string()).collect()
}

/// Slices that stand were reported by nobody and sold to nobody.
#[tokio::test]
async fn slices_are_sold_one_by_one_and_run_under_their_names() {
    let mut world = World::start_on(SLICED, &["east"], rhumb_placement::decide).await;
    world.agents[0].stall(Phase::Running);
    let mut orders = Vec::new();
    for (name, asked) in
        [("one", "{mig: 3g.40gb}"), ("two", "{mig: 3g.40gb, count: 2}"), ("three", "{share: 25%, models: [H100]}")]
    {
        let id = world.order(&part(name, asked), name).await;
        orders.push(world.until(id, |o| o.phase == Some(Phase::Running)).await);
    }
    assert_eq!(held(&world).await, ["0", "1/0", "1/1", "2/0"].map(String::from));
    let desired = world.agents[0].desired.clone().unwrap();
    let profile = "3g.40gb".parse().unwrap();
    let parts: Vec<_> = desired.assignments.iter().map(|a| (a.devices.len(), a.part.unwrap(), a.goal)).collect();
    for expected in [
        (1, DevicePart::Slice { profile }, AssignmentGoal::Run),
        (2, DevicePart::Slice { profile }, AssignmentGoal::Run),
        (1, DevicePart::Share { thousandths: 250, memory_bytes: None }, AssignmentGoal::Run),
    ] {
        assert!(parts.contains(&expected), "{parts:?}");
    }
    // nothing is left of that kind
    let more = world.order(&part("four", "{mig: 3g.40gb}"), "four").await;
    let waits = world.until(more, is(OrderState::Pending)).await;
    assert!(!waits.reasons.is_empty());
    world.agents[0].stall(None);
    world.until(more, is(OrderState::Completed)).await;
    // half of the device's memory for six seconds at 8 CNY an hour: 8 / 2 / 600
    let usage = world.store.usage(orders[0].id).await.unwrap();
    let cost: i64 = usage.iter().map(|u| u.cost_micros).sum();
    assert_eq!(cost, 6_667);
    assert!(world.desk.audit().await.unwrap().clean);
}

/// A card that was cut anew under an order: what it had is not sold until the order has ended, by whatever name.
#[tokio::test]
async fn a_card_that_is_cut_anew_is_not_sold_under_its_holder() {
    let mut world = World::start_on(SLICED, &["east"], rhumb_placement::decide).await;
    world.agents[0].stall(Phase::Running);
    let id = world.order(&part("one", "{mig: 3g.40gb, count: 3}"), "one").await;
    world.until(id, |o| o.phase == Some(Phase::Running)).await;
    // as its agent says of it
    let anew = |report: &mut Report| {
        let devices = &mut report.nodes.as_mut().unwrap()[0].devices;
        devices[1].mig = None;
        devices[2].health = Health::Degraded;
    };
    let point = world.agents[0].point.clone();
    let mut report = world.agents[0].report();
    anew(&mut report);
    world.desk.sync(&point, report).await.unwrap();
    let view = world.desk.view(world.desk.now()).await.unwrap();
    let free: u32 = view.sites[0].nodes.iter().map(|n| n.shape.free_devices()).sum();
    assert_eq!(free, 1, "the device that was never cut, and not the one of whose slices one is held");
    assert!(view.sites[0].nodes.iter().all(|n| n.shape.groups.iter().all(|g| g.slices.is_empty())));
    assert_eq!(held(&world).await.len(), 3, "what is held stays");
}

fn report_of(world: &mut World, teller: &Teller) -> (Report, rhumb_wire::Telling) {
    let told = teller.tell();
    let mut report = world.agents[1].report();
    (report.nodes, report.inventory) = (told.nodes.clone(), told.update.clone());
    (report, told)
}

/// Differences against what was acknowledged, also over a restart of the orchestrator and of the agent.
#[tokio::test]
async fn an_inventory_is_told_in_differences_and_whole_again_when_nobody_knows_it() {
    let mut world = World::start().await;
    let point = world.agents[1].point.clone();
    let nodes = world.agents[1].report().nodes.unwrap();
    world.agents[1].boot = Uuid::now_v7();
    let mut teller = Teller::new(nodes.clone());
    let devices = async |world: &World| {
        let stored = world.store.nodes().await.unwrap();
        stored
            .iter()
            .filter(|n| n.site == point)
            .flat_map(|n| &n.node.devices)
            .filter(|d| d.health == Health::Ok)
            .count()
    };
    let mut sent = Vec::new();
    for step in 0..6 {
        let mut now = nodes.clone();
        now[0].devices.truncate(8 - step);
        teller.renew(now);
        teller.measure([rhumb_wire::DeviceFigures {
            node: nodes[0].name.clone(),
            device: 0,
            fares: Fares { utilisation_pct: Some(10 * step as u8), ..Fares::default() },
        }]);
        if step == 3 {
            world.restart().await;
        }
        let (mut report, told) = report_of(&mut world, &teller);
        report.wait_ms = 60_000;
        sent.push((report.nodes.is_some(), report.inventory.changes.is_some()));
        let reply =
            world.desk.sync(&point, Report { wait_ms: if step == 3 { 60_000 } else { 0 }, ..report }).await.unwrap();
        match step {
            3 => assert_eq!(reply.inventory, None, "who restarted knows no base, and says so without waiting"),
            _ => assert_eq!(devices(&world).await, 8 - step),
        }
        teller.answered(told, reply.inventory);
        let state = world.desk.hub().lock();
        let last = state.points[&point].last.as_ref().unwrap();
        let fares = last.devices.figures().values().next().and_then(|f| f.utilisation_pct);
        assert_eq!(fares, Some(10 * step as u8));
    }
    assert_eq!(sent, [(true, false), (false, true), (false, true), (false, true), (true, false), (false, true)]);
    // a new start of the agent begins with all of it
    world.agents[1].boot = Uuid::now_v7();
    let teller = Teller::new(nodes);
    let (report, _) = report_of(&mut world, &teller);
    assert!(world.desk.sync(&point, report).await.unwrap().inventory.is_some());
    assert_eq!(devices(&world).await, 8);
}
