//! Start, finish and cost of one choice of everything.

use super::{Best, Brute, HOUR_US, Phase, Placed, R, Way, int};
use jiff::Timestamp;
use rhumb_model::{LinkId, ModelName, order::Component, price, ratio::round_half_up};
use std::collections::{BTreeMap, BTreeSet};

impl Brute<'_> {
    /// Whether no link is asked for more than it has.
    pub(super) fn carries(&self, ways: &[(Phase, Vec<Way>)], chosen: &[&Way]) -> bool {
        for phase in [Phase::In, Phase::Run, Phase::Out] {
            let mut load: BTreeMap<&LinkId, u64> = BTreeMap::new();
            for ((p, _), way) in ways.iter().zip(chosen) {
                if *p == phase || (phase == Phase::Out && *p == Phase::Run) {
                    let more = way.more.iter().flat_map(|(path, kbps)| path.iter().map(move |id| (id, *kbps)));
                    for (id, kbps) in way.path.iter().map(|id| (id, way.kbps)).chain(more) {
                        *load.entry(id).or_insert(0) += kbps;
                    }
                }
            }
            if load.iter().any(|(id, sum)| *sum > self.view.link(id).unwrap().free.kbps()) {
                return false;
            }
        }
        true
    }

    /// Prices legs that the links carry.
    pub(super) fn price(
        &self,
        placed: &[Placed],
        ways: &[(Phase, Vec<Way>)],
        chosen: &[&Way],
        best: &mut Option<Best>,
    ) {
        let longest = |phase: Phase| {
            ways.iter().zip(chosen).filter(|((p, _), _)| *p == phase).map(|(_, w)| w.time).max().unwrap_or(int(0))
        };
        let (staging, out) = (longest(Phase::In), longest(Phase::Out));
        let hours: Vec<R> = self.order.components.iter().zip(placed).map(|(c, p)| self.hours(c, p)).collect();
        let run = hours.iter().max().copied().unwrap();
        let terms = &self.order.terms;
        let late_rate = terms.late_per_hour;
        let deadline = terms.deadline.map(|d| R::new(d.as_nanosecond(), 1000));
        let mut starts = vec![self.submit + staging];
        if let Some(w) = &terms.window {
            starts.clear();
            let mut t = self.at;
            for _ in 0..400 {
                let end = price::window_edge_after(t, w.from, w.to, &w.tz);
                let from = R::new(t.as_nanosecond(), 1000);
                let fits = end.is_none_or(|e| from + staging + run + out <= R::new(e.as_nanosecond(), 1000));
                if price::inside(w.from, w.to, &w.tz, t) && fits {
                    starts.push(from + staging);
                    break;
                }
                let Some(e) = end else { break };
                t = e;
            }
        } else if let (Some(deadline), None) = (deadline, terms.value_per_hour) {
            for s in placed.iter().flatten().map(|p| &self.view.sites[p.0].site.prices) {
                let mut t = self.at;
                while let Some(e) = s.next_edge(t) {
                    let edge = R::new(e.as_nanosecond(), 1000);
                    if edge + run + out > deadline {
                        break;
                    }
                    if edge > self.submit + staging {
                        starts.push(edge);
                    }
                    t = e;
                }
            }
        }
        for start in starts {
            let finish = start + run + out;
            let past = deadline.map_or(int(0), |d| (finish - d).max(int(0)));
            if past > int(0) && late_rate.is_none() {
                continue;
            }
            let mut compute = int(0);
            for ((c, p), h) in self.order.components.iter().zip(placed).zip(&hours) {
                for (site, model, n) in p {
                    let prices = &self.view.sites[*site].site.prices;
                    let per_hour = self.per_hour(c, *site, *model);
                    let mut t = start;
                    let mut factored = int(0);
                    while t < start + h {
                        let now = Timestamp::from_nanosecond((t * int(1000)).floor().to_integer()).unwrap();
                        let next =
                            prices.next_edge(now).map_or(start + h, |e| R::new(e.as_nanosecond(), 1000).min(start + h));
                        factored += prices.factor_at(now) * (next - t);
                        t = next;
                    }
                    compute += per_hour * int(*n) * factored / int(HOUR_US);
                }
            }
            let mut path = int(0);
            let mut transfer = int(0);
            for ((phase, _), w) in ways.iter().zip(chosen) {
                path += if *phase == Phase::Run { w.path_cost * (finish - start) } else { w.path_cost };
                transfer += w.transfer;
            }
            if terms.budget.is_some_and(|b| compute + path + transfer > self.money(Some(b))) {
                continue;
            }
            let time = self.money(terms.value_per_hour) * (finish - self.submit) / int(HOUR_US);
            let late = self.money(late_rate) * past / int(HOUR_US);
            let total = [compute, path, transfer, time, late].into_iter().map(round_half_up).sum();
            if best.as_ref().is_some_and(|b| b.total < total) {
                continue;
            }
            let name = |s: usize| self.view.sites[s].site.name.to_string();
            let found = Best {
                total,
                sites: placed.iter().flatten().map(|p| p.0).collect::<BTreeSet<_>>().len(),
                links: chosen.iter().map(|w| w.path.len() + w.more.iter().map(|(p, _)| p.len()).sum::<usize>()).sum(),
                names: placed.iter().map(|p| p.iter().map(|x| name(x.0)).collect()).collect(),
                models: placed.iter().map(|p| p.iter().map(|x| x.1.map(ToString::to_string)).collect()).collect(),
                paths: chosen.iter().map(|w| w.path.clone()).collect(),
            };
            if best.as_ref().is_none_or(|b| found < *b) {
                *best = Some(found);
            }
        }
    }

    /// How long the work of a component takes, in microseconds.
    fn hours(&self, c: &Component, placed: &Placed) -> R {
        match (&c.work, &c.service) {
            (Some(w), _) => match (w.duration, w.hours) {
                (Some(d), _) => int(d.micros()),
                (_, Some(h)) => {
                    let h = h.ratio() * int(HOUR_US);
                    let scaled = placed
                        .iter()
                        .filter_map(|(_, m, _)| Some(h * self.rate(c, w.reference.as_ref()?)? / self.rate(c, (*m)?)?));
                    scaled.max().unwrap_or(h)
                }
                _ => unreachable!(),
            },
            _ => int(self.order.terms.horizon.map_or(24 * HOUR_US, |h| h.micros().into())),
        }
    }

    /// What a replica costs in an hour at the price book's base.
    fn per_hour(&self, c: &Component, site: usize, model: Option<&ModelName>) -> R {
        let prices = &self.view.sites[site].site.prices;
        let mut per_hour = self.money(prices.cpu) * R::new(c.need.cpu.milli().into(), 1000)
            + self.money(prices.memory_gib) * R::new(c.need.memory.bytes().into(), 1 << 30);
        if let (Some(a), Some(m)) = (&c.need.accelerators, model) {
            let mut units = a.share.map_or(int(a.count.unwrap_or(1)), |s| R::new(s.thousandths().into(), 1000));
            if let Some(slice) = a.mig {
                let memory = self.view.devices[m].memory.bytes();
                units *= R::new(slice.memory().bytes().into(), memory.into());
            }
            per_hour += self.money(prices.devices.get(m).copied()) * units;
        }
        per_hour
    }

    /// How long one replica works at a site, and what it costs there at the price book's base.
    pub(super) fn compute(&self, c: &Component, site: usize, model: Option<&ModelName>) -> (R, R) {
        let hours = self.hours(c, &vec![(site, model, 1)]);
        (hours, self.per_hour(c, site, model) * hours / int(HOUR_US))
    }
}
