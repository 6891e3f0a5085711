//! Flows of live orders: moved, amended, cancelled meanwhile; what is held follows.

use crate::world::{DIAMOND, World, tenant};
use rhumb_control::DeskError;
use rhumb_model::{Latency, LinkId, Order, OrderId, OrderState, Phase};
use rhumb_provision::{PathRole, PathState};
use rhumb_store::{OrderRecord, Store};
use std::collections::BTreeMap;

fn document(rate: &str, bound: &str, more: &str) -> String {
    format!(
        "name: pair\nclass: processing\ncomponents:\n\
         - {{name: left, need: {{cpu: 10, memory: 1GiB}}, work: {{duration: 6s}}, run: {{command: [\"true\"]}}}}\n\
         - {{name: right, need: {{cpu: 10, memory: 1GiB}}, work: {{duration: 6s}}, run: {{command: [\"true\"]}}}}\n\
         flows: [{{from: left, to: right, rate: {rate}, max_latency: {bound}{more}}}]\nconstraints: {{sites: [a, b]}}\n"
    )
}

struct Diamond {
    world: World,
    id: OrderId,
}

impl Diamond {
    async fn running(document: &str) -> Self {
        let mut world = World::start_on(DIAMOND, &["a", "b", "r", "s"], rhumb_placement::decide).await;
        world.agents.iter_mut().for_each(|a| a.stall(Phase::Running));
        let id = world.order(document, "k").await;
        world.until(id, |o| o.phase == Some(Phase::Running)).await;
        Self { world, id }
    }

    fn slow(&mut self, links: &[&str], rtt_us: u64) {
        for agent in &mut self.world.agents {
            agent.conduct.rtt_us = links.iter().map(|l| (LinkId::new(l).unwrap(), rtt_us)).collect();
        }
    }

    /// kbit/s held on each link, without regard to when.
    async fn held(&self) -> BTreeMap<String, u64> {
        let mut held: BTreeMap<String, u64> = BTreeMap::new();
        for hold in self.world.store.holdings().await.unwrap().links {
            let most = held.entry(hold.link.to_string()).or_default();
            *most = hold.rate.kbps().max(*most);
        }
        held
    }

    /// The links that its plan goes over, from either end.
    fn by(order: &OrderRecord) -> String {
        let leg = &order.plan.as_ref().unwrap().flows[0];
        let relay = |l: &LinkId| l.as_str().contains('r');
        assert_eq!(leg.path.iter().filter(|l| relay(l)).count() % 2, 0, "{leg:?}");
        if leg.path.iter().any(relay) { "r".into() } else { "s".into() }
    }

    async fn amend(&mut self, document: &str) -> Result<OrderRecord, DeskError> {
        self.world.desk.amend(&tenant(), self.id, Order::read(document).unwrap(), None).await
    }

    async fn end(mut self) {
        self.world.desk.cancel(&tenant(), self.id, None).await.unwrap();
        let done = self.world.until(self.id, |o| o.state.is_final()).await;
        assert_eq!((done.state, done.generation), (OrderState::Cancelled, 1));
        self.world.nothing_is_left().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_leaves_a_slow_path_and_so_do_its_holds() {
    let mut d = Diamond::running(&document("10Mbps", "20ms", "")).await;
    let before = d.world.store.order(d.id).await.unwrap().unwrap();
    assert_eq!(Diamond::by(&before), "r");
    assert_eq!(d.held().await.len(), 2);
    d.slow(&["a-r", "a-r~"], 400_000);
    let moved = |o: &OrderRecord| {
        let leg = &o.saga.as_ref().unwrap().legs[0];
        leg.carry().path > 0 && leg.paths[0].role == PathRole::Gone
    };
    let after = d.world.until(d.id, moved).await;
    assert_eq!((Diamond::by(&after), after.generation, after.phase), ("s".to_owned(), 1, Some(Phase::Running)));
    let held = d.held().await;
    assert!(held.len() == 2 && held.keys().all(|l| l.contains('s')), "{held:?}");
    // the dearer path costs more, and so the plan says
    let cost = |o: &OrderRecord| o.cost.unwrap().path_micros;
    assert!(cost(&after) > cost(&before), "{:?} {:?}", after.cost, before.cost);
    assert!(d.world.desk.audit().await.unwrap().clean);
    let events = d.world.store.order_events(d.id, 0, 200).await.unwrap();
    let said: Vec<_> = events.iter().filter(|e| e.event.kind == "route").map(|e| e.event.message.as_str()).collect();
    assert!(
        said.iter().any(|m| m.contains("out of its promise")) && said.iter().any(|m| m.contains("takes to")),
        "{said:?}"
    );
    d.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_without_another_path_raises_attention_and_keeps_its_work() {
    let mut d = Diamond::running(&document("10Mbps", "20ms", "")).await;
    d.slow(&["a-r", "a-r~", "a-s", "a-s~"], 400_000);
    let told = d.world.until(d.id, |o| o.attention.is_some()).await;
    let attention = told.attention.unwrap();
    assert!(attention.contains("flow 0 is out of its promise") && attention.contains("no other path"), "{attention}");
    assert_eq!((told.phase, told.generation), (Some(Phase::Running), 1));
    d.slow(&[], 0);
    d.world.until(d.id, |o| o.attention.is_none()).await;
    d.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_is_amended_in_place_or_by_another_path_or_not_at_all() {
    let mut d = Diamond::running(&document("10Mbps", "20ms", "")).await;
    let now = d.amend(&document("40Mbps", "20ms", "")).await.unwrap();
    assert_eq!((Diamond::by(&now), now.generation), ("r".to_owned(), 1));
    assert!(d.held().await.values().all(|rate| *rate == 40_000));
    // more than any path has: what was free on the link stays free, and the order stays
    let before = d.held().await;
    let refused = d.amend(&document("1100Mbps", "20ms", "")).await.unwrap_err();
    assert!(matches!(&refused, DeskError::Conflict(why) if why.contains("stays as it is")), "{refused}");
    assert_eq!(d.held().await, before);
    let other = d.amend(&document("40Mbps", "1ms", "")).await.unwrap_err();
    assert!(matches!(&other, DeskError::Conflict(why) if why.contains("1ms asked")), "{other}");
    let name = d.amend(&document("40Mbps", "20ms", "").replace("name: pair", "name: other")).await.unwrap_err();
    assert!(matches!(name, DeskError::Conflict(_)), "{name}");
    // more than its path has, and another does
    d.amend(&document("150Mbps", "20ms", "")).await.unwrap();
    let moved = |o: &OrderRecord| {
        let leg = &o.saga.as_ref().unwrap().legs[0];
        leg.carry().path > 0 && leg.paths[0].role == PathRole::Gone
    };
    let after = d.world.until(d.id, moved).await;
    assert_eq!((Diamond::by(&after), after.generation), ("s".to_owned(), 1));
    let held = d.held().await;
    assert!(held.len() == 2 && held.values().all(|rate| *rate == 150_000), "{held:?}");
    let bound = after.saga.as_ref().unwrap().legs[0].bound;
    assert_eq!(bound, Some(Latency::from_micros(20_000)));
    d.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_flow_holds_both_paths_and_split_ones_their_parts() {
    let d = Diamond::running(&document("10Mbps", "20ms", ", protected: true")).await;
    assert_eq!(d.held().await.len(), 4);
    let order = d.world.store.order(d.id).await.unwrap().unwrap();
    let leg = &order.saga.as_ref().unwrap().legs[0];
    assert!(leg.protected && leg.with_role(PathRole::Backup).is_some_and(PathState::is_active));
    d.end().await;
    let d = Diamond::running(&document("250Mbps", "20ms", ", split: true")).await;
    let held = d.held().await;
    assert_eq!(held.len(), 4, "{held:?}");
    assert_eq!(held.values().sum::<u64>(), 500_000, "{held:?}");
    d.end().await;
}

/// Moves and cancels of many orders at once, the desk restarted in between.
#[tokio::test(flavor = "multi_thread")]
async fn moves_and_cancels_at_once_leave_nothing() {
    for restart in [false, true] {
        let mut d = Diamond::running(&document("10Mbps", "20ms", "")).await;
        d.slow(&["a-r", "a-r~"], 400_000);
        d.world.until(d.id, |o| o.saga.as_ref().unwrap().legs[0].paths.len() > 1).await;
        if restart {
            d.world.restart().await;
        }
        d.end().await;
    }
}
