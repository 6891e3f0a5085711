//! The same placer for orders of more components, each of one replica: placements that cost more than the best plan before
//! their legs are chosen are not looked into.

use super::{Best, Brute, Phase, Placed, R, Way, int};
use jiff::Timestamp;
use rhumb_federation::View;
use rhumb_model::{ModelName, Order, order::End};
use std::{cell::Cell, collections::BTreeMap};

/// Where a component may stand, and the least it costs there.
#[derive(Clone)]
struct Stand<'a> {
    site: usize,
    model: Option<&'a ModelName>,
    hours: R,
    compute: R,
}

/// A flow, and the sites of those of its ends that are components.
type Ends = (usize, Option<usize>, Option<usize>);

struct Pruned<'a> {
    brute: Brute<'a>,
    stands: Vec<Vec<Stand<'a>>>,
    /// What the components from an index on cost at the least.
    rest: Vec<R>,
    /// By flow and the sites of its components: whether it runs along with the work, and its least; none: no way.
    legs: BTreeMap<Ends, Option<(bool, Way)>>,
}

/// The best plan of an order whose components have one replica each, at sites whose prices do not change with the hour;
/// with more selections of legs than `most`, none is told.
pub fn best(
    view: &View,
    order: &Order,
    submit: Timestamp,
    staging_max: u64,
    most: u64,
) -> Result<Option<Best>, super::TooMany> {
    let left = Cell::new(most);
    let brute =
        Brute { view, order, submit: R::new(submit.as_nanosecond(), 1000), at: submit, staging_max, must: None, left };
    let mut stands = Vec::new();
    for component in &order.components {
        let mut here: Vec<Stand> = brute
            .stands(component)
            .into_iter()
            .map(|(site, model)| {
                let (hours, compute) = brute.compute(component, site, model);
                Stand { site, model, hours, compute }
            })
            .collect();
        // a cheap plan that is found early leaves less to try
        here.sort_by_key(|s| s.compute);
        stands.push(here);
    }
    let mut rest = vec![int(0)];
    for list in stands.iter().rev() {
        let Some(least) = list.first() else { return Ok(None) };
        rest.push(rest[rest.len() - 1] + least.compute);
    }
    rest.reverse();
    let mut pruned = Pruned { brute, stands, rest, legs: BTreeMap::new() };
    let mut best = None;
    pruned.place(&mut Vec::new(), &mut best);
    if pruned.brute.left.get() == 0 { Err(super::TooMany) } else { Ok(best) }
}

impl Pruned<'_> {
    fn place(&mut self, chosen: &mut Vec<usize>, best: &mut Option<Best>) {
        let placed: Vec<Placed> = (chosen.iter().enumerate())
            .map(|(part, at)| vec![(self.stands[part][*at].site, self.stands[part][*at].model, 1)])
            .collect();
        if !self.brute.admissible(&placed) {
            return;
        }
        let Some(least) = self.least(chosen) else { return };
        // each of the five terms is rounded by itself
        if best.as_ref().is_some_and(|b| least > int(b.total + 3)) {
            return;
        }
        if chosen.len() == self.stands.len() {
            self.brute.flows(&placed, best);
            return;
        }
        for at in 0..self.stands[chosen.len()].len() {
            chosen.push(at);
            self.place(chosen, best);
            chosen.pop();
        }
    }

    /// What a plan with these choices costs at the least; none: a flow has no way.
    fn least(&mut self, chosen: &[usize]) -> Option<R> {
        let stand = |part: usize| &self.stands[part][chosen[part]];
        let mut sum = self.rest[chosen.len()];
        let mut longest = int(0);
        for part in 0..chosen.len() {
            sum += stand(part).compute;
            longest = longest.max(stand(part).hours);
        }
        for (index, flow) in self.brute.order.flows.iter().enumerate() {
            let site = |end: &End| match self.brute.index(end) {
                None => Some(None),
                Some(part) => (part < chosen.len()).then(|| Some(stand(part).site)),
            };
            let (Some(from), Some(to)) = (site(&flow.from), site(&flow.to)) else { continue };
            let brute = &self.brute;
            let leg = self.legs.entry((index, from, to)).or_insert_with(|| brute.floor(index, from, to));
            let (runs, way) = leg.as_ref()?;
            sum += way.transfer + if *runs { way.path_cost * longest } else { way.path_cost };
        }
        Some(sum)
    }
}

impl Brute<'_> {
    /// The least that a flow costs between two sites, or a site and its other end, whatever other flows take.
    fn floor(&self, flow: usize, from: Option<usize>, to: Option<usize>) -> Option<(bool, Way)> {
        let f = &self.order.flows[flow];
        let points = |end: &End, site: Option<usize>| match (site, end) {
            (Some(site), _) => (vec![self.view.sites[site].point], 0),
            (None, End::Dataset(d)) => (self.view.datasets[d].at.iter().map(|s| self.view.points[s]).collect(), 0),
            (None, End::Region(r)) => {
                let region = &self.view.regions[r];
                (vec![self.view.points[&region.at]], region.access.micros())
            }
            (None, End::Component(_)) => unreachable!("a component stands at a site"),
        };
        let ((from, a), (to, b)) = (points(&f.from, from), points(&f.to, to));
        let (phase, ways) = self.ways(flow, &from, &to, int(1), a + b);
        (!ways.is_empty()).then(|| (phase == Phase::Run, Way::floor(&ways)))
    }
}
