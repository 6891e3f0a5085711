//! What is held on links: for good, or in slots of 15 minutes. Links are locked by id, and each row is written once.

use crate::{
    codec::{Reader, bound, int},
    error::Fault,
    intent::{Conflict, Holder, LinkWant},
    record::LinkHold,
    rows,
    session::{Session, Value, args, placeholders},
};
use jiff::Timestamp;
use rhumb_model::{Bandwidth, LinkId, OrderId, Slots};
use std::collections::BTreeMap;

/// The slot that an instant is in.
fn slot_of(at: Timestamp) -> u32 {
    Slots::from(at).first()
}

/// Holds all of it under the holder's generation; slots that are over by `at` count as held and take nothing.
pub async fn take(
    session: &mut Session<'_>,
    holder: Holder,
    generation: u64,
    wants: &[LinkWant],
    at: Timestamp,
) -> Result<(), Fault> {
    let sums = sums(wants);
    if sums.is_empty() {
        return Ok(());
    }
    let mut changes = Changes::default();
    for ((link, slots), rate) in &sums {
        changes.add(link, *slots, int("link rate", *rate)?);
    }
    changes.take(session, at).await?;
    insert(session, holder, int("generation", generation)?, &sums).await
}

type Sums<'a> = BTreeMap<(&'a LinkId, Option<Slots>), u64>;

fn sums(wants: &[LinkWant]) -> Sums<'_> {
    let mut sums = Sums::new();
    for want in wants {
        let sum = sums.entry((&want.link, want.slots)).or_default();
        *sum = sum.saturating_add(want.rate.kbps());
    }
    sums.retain(|_, rate| *rate > 0);
    sums
}

async fn insert(session: &mut Session<'_>, holder: Holder, generation: i64, sums: &Sums<'_>) -> Result<(), Fault> {
    let (kind, id) = holder.key();
    let mut rows = Vec::with_capacity(sums.len());
    for ((link, slots), rate) in sums {
        let (first, end) = slots.map_or((0, 0), |s| (s.first(), s.end()));
        rows.push(args![kind, id, generation, link.as_str(), first, end, int("link rate", *rate)?]);
    }
    let head = "INSERT INTO link_holds (holder_kind, holder, generation, link, first_slot, end_slot, rate_kbps)";
    let tail = "ON CONFLICT (holder_kind, holder, generation, link, first_slot, end_slot) DO UPDATE \
                SET rate_kbps = link_holds.rate_kbps + excluded.rate_kbps";
    session.run_many(head, 7, rows, tail).await?;
    Ok(())
}

/// Holds this in place of all that the generation holds: what it gives up and what it takes are one change, so that no link
/// is ever over-full and none of it can be another's in between.
pub async fn replace(
    session: &mut Session<'_>,
    holder: Holder,
    generation: i64,
    wants: &[LinkWant],
    at: Timestamp,
) -> Result<(), Fault> {
    let mut changes = drop_holds(session, holder, generation).await?;
    let sums = sums(wants);
    for ((link, slots), rate) in &sums {
        changes.add(link, *slots, int("link rate", *rate)?);
    }
    if changes.0.is_empty() {
        return Ok(());
    }
    let (before, after) = changes.applied(session, at).await?;
    for (link, held) in &after {
        let full = held.for_good.saturating_add(held.peak()) > held.capacity;
        if full && held.takes_more(&before[link]) {
            return Err(changes.full(link, &before[link]).into());
        }
    }
    // no slot may be above its link's peak, and no link above its capacity, after any statement
    let between = |(id, held): (&LinkId, &Held)| {
        let old = &before[id];
        (id.clone(), held.for_good.min(old.for_good), held.peak().max(old.peak()))
    };
    write_sums(session, after.iter().map(between).collect()).await?;
    write_slots(session, &before, &after).await?;
    write_links(session, &after).await?;
    changes.forget_empty(session).await?;
    insert(session, holder, generation, &sums).await
}

/// What the generation held, as what is given back.
async fn drop_holds(session: &mut Session<'_>, holder: Holder, generation: i64) -> Result<Changes, Fault> {
    let (kind, id) = holder.key();
    let sql = "DELETE FROM link_holds WHERE holder_kind = $1 AND holder = $2 AND generation = $3 RETURNING \
               holder_kind, holder, generation, link, first_slot, end_slot, rate_kbps";
    let mut changes = Changes::default();
    for row in &session.all(sql, args![kind, id, generation]).await? {
        let hold = rows::link_hold(row)?;
        changes.add(&hold.link, hold.slots, -bound(hold.rate.kbps()));
    }
    Ok(changes)
}

/// Gives back all that a generation holds on links.
pub async fn release(session: &mut Session<'_>, holder: Holder, generation: i64, at: Timestamp) -> Result<(), Fault> {
    drop_holds(session, holder, generation).await?.give_back(session, at).await
}

/// Holds at least this much for a live generation: what it holds already counts. A generation that holds no link, or is
/// not the order's any more, is left alone.
pub async fn extend(
    session: &mut Session<'_>,
    order: OrderId,
    generation: u64,
    wants: &[LinkWant],
    at: Timestamp,
) -> Result<(), Fault> {
    let sql = format!("SELECT generation FROM orders WHERE id = $1{}", session.dialect().lock());
    let found = session.all_built(sql, args![order.0]).await?;
    let current = found.first().map(|row| Reader::new("orders", row).count::<u64>("generation")).transpose()?;
    let holder = Holder::Order(order);
    let (kind, id) = holder.key();
    let sql = "SELECT holder_kind, holder, generation, link, first_slot, end_slot, rate_kbps FROM link_holds \
               WHERE holder_kind = $1 AND holder = $2 AND generation = $3";
    let found = session.all(sql, args![kind, id, int("generation", generation)?]).await?;
    let holds: Vec<LinkHold> = found.iter().map(rows::link_hold).collect::<Result<_, _>>()?;
    if current != Some(generation) || holds.is_empty() {
        return Ok(());
    }
    let missing: Vec<LinkWant> = wants.iter().flat_map(|want| missing(want, &holds)).collect();
    take(session, holder, generation, &missing, at).await
}

/// What a want has more than what is held, slot by slot.
fn missing(want: &LinkWant, holds: &[LinkHold]) -> Vec<LinkWant> {
    let Some(slots) = want.slots else { return Vec::new() };
    let held = |slot: u32| -> u64 {
        let covers = |h: &&LinkHold| h.slots.is_none_or(|s| (s.first()..s.end()).contains(&slot));
        holds.iter().filter(|h| h.link == want.link).filter(covers).map(|h| h.rate.kbps()).sum()
    };
    let more = |slot| want.rate.kbps().saturating_sub(held(slot));
    let one = |slot| {
        Some(LinkWant { slots: Slots::new(slot, slot + 1), rate: Bandwidth::from_kbps(more(slot)), ..want.clone() })
    };
    (slots.first()..slots.end()).filter_map(one).collect()
}

/// Slots that are over are forgotten, and no peak counts them any more.
pub async fn forget(session: &mut Session<'_>, at: Timestamp) -> Result<(), Fault> {
    let sql = format!("SELECT id FROM links WHERE peak_kbps > 0 ORDER BY id{}", session.dialect().lock());
    session.all_built(sql, vec![]).await?;
    session.run("DELETE FROM link_slots WHERE slot < $1", args![slot_of(at)]).await?;
    let sql = "UPDATE links SET peak_kbps = coalesce((SELECT max(s.reserved_kbps) FROM link_slots s \
               WHERE s.link = links.id), 0) WHERE peak_kbps > 0";
    session.run(sql, vec![]).await?;
    Ok(())
}

/// kbit/s more or less, by link.
#[derive(Debug, Default)]
struct Changes(BTreeMap<LinkId, Change>);

#[derive(Debug, Default)]
struct Change {
    for_good: i64,
    slots: Vec<(Slots, i64)>,
}

/// A link as its rows have it.
#[derive(Debug, Clone)]
struct Held {
    capacity: i64,
    for_good: i64,
    slots: BTreeMap<u32, i64>,
}

impl Held {
    fn peak(&self) -> i64 {
        self.slots.values().copied().max().unwrap_or(0)
    }

    fn takes_more(&self, before: &Self) -> bool {
        let grown = |(slot, kbps): (&u32, &i64)| *kbps > before.slots.get(slot).copied().unwrap_or(0);
        self.for_good > before.for_good || self.slots.iter().any(grown)
    }
}

impl Changes {
    fn add(&mut self, link: &LinkId, slots: Option<Slots>, kbps: i64) {
        let change = self.0.entry(link.clone()).or_default();
        match slots {
            Some(slots) => change.slots.push((slots, kbps)),
            None => change.for_good = change.for_good.saturating_add(kbps),
        }
    }

    async fn take(&self, session: &mut Session<'_>, at: Timestamp) -> Result<(), Fault> {
        let (before, after) = self.applied(session, at).await?;
        for (link, held) in &after {
            if held.for_good.saturating_add(held.peak()) > held.capacity {
                return Err(self.full(link, &before[link]).into());
            }
        }
        // the peak is raised first: no slot may be above it
        write_links(session, &after).await?;
        write_slots(session, &before, &after).await
    }

    async fn give_back(&self, session: &mut Session<'_>, at: Timestamp) -> Result<(), Fault> {
        if self.0.is_empty() {
            return Ok(());
        }
        let (before, after) = self.applied(session, at).await?;
        write_slots(session, &before, &after).await?;
        write_links(session, &after).await?;
        self.forget_empty(session).await
    }

    async fn forget_empty(&self, session: &mut Session<'_>) -> Result<(), Fault> {
        let list = placeholders(1, self.0.len());
        let sql = format!("DELETE FROM link_slots WHERE link IN {list} AND reserved_kbps = 0");
        session.all_built(sql, self.0.keys().map(|id| id.as_str().into()).collect()).await?;
        Ok(())
    }

    /// The links' rows, locked, as they are and as they are to be.
    async fn applied(
        &self,
        session: &mut Session<'_>,
        at: Timestamp,
    ) -> Result<(BTreeMap<LinkId, Held>, BTreeMap<LinkId, Held>), Fault> {
        let now = slot_of(at);
        let before = self.held(session, now).await?;
        let mut after = before.clone();
        for (link, change) in &self.0 {
            let Some(held) = after.get_mut(link) else {
                return Err(Conflict::Missing(format!("link {link}")).into());
            };
            held.for_good = held.for_good.saturating_add(change.for_good);
            for (slots, kbps) in &change.slots {
                for slot in slots.first().max(now)..slots.end() {
                    // nothing is given back to a slot that is forgotten already
                    if *kbps > 0 || held.slots.contains_key(&slot) {
                        let sum = held.slots.entry(slot).or_default();
                        *sum = sum.saturating_add(*kbps);
                    }
                }
            }
        }
        Ok((before, after))
    }

    async fn held(&self, session: &mut Session<'_>, now: u32) -> Result<BTreeMap<LinkId, Held>, Fault> {
        let list = placeholders(1, self.0.len());
        let names = || -> Vec<Value> { self.0.keys().map(|id| id.as_str().into()).collect() };
        let lock = session.dialect().lock();
        let sql = format!("SELECT id, capacity_kbps, reserved_kbps FROM links WHERE id IN {list} ORDER BY id{lock}");
        let mut held = BTreeMap::new();
        for row in &session.all_built(sql, names()).await? {
            let r = Reader::new("links", row);
            let link =
                Held { capacity: r.int("capacity_kbps")?, for_good: r.int("reserved_kbps")?, slots: BTreeMap::new() };
            held.insert(r.parsed::<LinkId>("id")?, link);
        }
        // a statement of its own: it must see what the lock has waited for
        let sql = format!(
            "SELECT link, slot, reserved_kbps FROM link_slots WHERE link IN {list} AND slot >= ${}",
            self.0.len() + 1
        );
        let args = names().into_iter().chain([now.into()]).collect();
        for row in &session.all_built(sql, args).await? {
            let r = Reader::new("link_slots", row);
            if let Some(link) = held.get_mut(&r.parsed::<LinkId>("link")?) {
                link.slots.insert(r.count("slot")?, r.int("reserved_kbps")?);
            }
        }
        Ok(held)
    }

    fn full(&self, link: &LinkId, before: &Held) -> Conflict {
        let change = &self.0[link];
        let wanted = change.slots.iter().map(|(_, kbps)| *kbps).max().unwrap_or(0).saturating_add(change.for_good);
        let within = |slot: u32| change.slots.iter().any(|(s, _)| (s.first()..s.end()).contains(&slot));
        let busy = before.slots.iter().filter(|(slot, _)| change.for_good > 0 || within(**slot)).map(|(_, kbps)| *kbps);
        let free = before.capacity.saturating_sub(before.for_good).saturating_sub(busy.max().unwrap_or(0));
        let rate = |kbps: i64| Bandwidth::from_kbps(u64::try_from(kbps).unwrap_or(0));
        Conflict::Link { link: link.clone(), free: rate(free), needed: rate(wanted) }
    }
}

async fn write_links(session: &mut Session<'_>, links: &BTreeMap<LinkId, Held>) -> Result<(), Fault> {
    write_sums(session, links.iter().map(|(id, held)| (id.clone(), held.for_good, held.peak())).collect()).await
}

/// What each link holds for good, and its peak.
async fn write_sums(session: &mut Session<'_>, links: Vec<(LinkId, i64, i64)>) -> Result<(), Fault> {
    let rows = links.iter().map(|(id, for_good, peak)| args![id.as_str(), *for_good, *peak]);
    let head = "WITH v (id, reserved, peak) AS (";
    let tail = ") UPDATE links SET reserved_kbps = v.reserved, peak_kbps = v.peak FROM v WHERE links.id = v.id";
    session.run_many(head, 3, rows.collect(), tail).await?;
    Ok(())
}

async fn write_slots(
    session: &mut Session<'_>,
    before: &BTreeMap<LinkId, Held>,
    after: &BTreeMap<LinkId, Held>,
) -> Result<(), Fault> {
    let changed = after.iter().flat_map(|(id, held)| {
        let old = &before[id].slots;
        let differs = move |(slot, kbps): &(&u32, &i64)| old.get(*slot).copied().unwrap_or(0) != **kbps;
        held.slots.iter().filter(differs).map(move |(slot, kbps)| args![id.as_str(), *slot, *kbps])
    });
    let head = "INSERT INTO link_slots (link, slot, reserved_kbps)";
    let tail = "ON CONFLICT (link, slot) DO UPDATE SET reserved_kbps = excluded.reserved_kbps";
    session.run_many(head, 3, changed.collect(), tail).await?;
    Ok(())
}
