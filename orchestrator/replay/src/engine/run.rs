//! One job on its devices and links, from the decision to the last byte.

use super::Engine;
use crate::{
    bill::{self, carried, moving, rounded},
    job::{Class, whole_devices},
    journal::{Event, Held, HeldLink, HeldSeat},
    policy::Place,
    time::Micros,
    world::{Load, Seat, World},
};
use rhumb_model::{
    Amount, Currency, Leg, Order, Plan,
    order::End,
    quantity::Span,
    ratio::{Decimal, Ratio, round_half_up},
};
use rhumb_placement::booking::LegPhase;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub(super) struct Run {
    pub start: Micros,
    pub end: Micros,
    pub finish: Micros,
    /// How long it was expected to run.
    estimate: Micros,
    seats: Vec<Seat>,
    devices: u64,
    legs: Vec<Moving>,
    loads: Vec<Load>,
    /// 0: data comes in, 1: it runs, 2: results go out.
    phase: usize,
    /// The plan's own bill holds: it runs for as long as the plan says.
    planned_bill: Option<i64>,
    /// Index of each seat's component, and whose turn it is: needs are the order's.
    needs: Vec<rhumb_model::order::Need>,
}

#[derive(Debug, Clone)]
struct Moving {
    links: Vec<usize>,
    phase: usize,
    kbps: u64,
    bytes: u64,
    /// From a region's users to its point.
    access: Micros,
    bound: Option<Micros>,
    late: bool,
}

/// The classes as a policy has them decided: time has the value it says.
pub(super) fn valued(classes: &[Class], place: &Place, currency: Currency) -> Vec<Class> {
    let mut classes = classes.to_vec();
    for class in classes.iter_mut().filter(|c| c.guessed && !place.value_per_device_hour.is_zero()) {
        let value = place.value_per_device_hour.ratio() * Ratio::from_integer(i128::from(class.devices));
        let amount = Decimal::from_ratio(value).and_then(|value| Amount::new(value, currency).ok());
        class.order.terms.value_per_hour = amount;
    }
    classes
}

/// Writes an estimate into the order of a trace job.
pub(super) fn expect(order: &mut Order, estimate: Micros) {
    for work in order.components.iter_mut().filter_map(|c| c.work.as_mut()) {
        work.duration = Some(Span::from_micros(estimate.0.max(1) as u64));
    }
}

impl Run {
    pub fn new(
        (now, estimate): (Micros, Micros),
        plan: &Plan,
        order: &Order,
        seats: Vec<Seat>,
        runs: Option<Micros>,
        world: &World,
    ) -> Self {
        let legs: Vec<Moving> = plan.flows.iter().map(|leg| Moving::new(leg, order, world)).collect();
        let longest = |phase: usize| {
            let times = legs.iter().filter(|l| l.phase == phase && l.bytes > 0).map(|l| l.time(world));
            times.max().unwrap_or(Micros::ZERO)
        };
        let planned = |phase: usize| {
            let of_phase = plan.flows.iter().zip(&legs).filter(|(_, l)| l.phase == phase && l.bytes > 0);
            let times = of_phase.map(|(leg, l)| Micros(leg.latency_us as i64) + l.transmission());
            times.max().unwrap_or(Micros::ZERO)
        };
        // a plan may wait for a window or a price; what is less is the rounding of its parts
        let waits = Micros::from(plan.start) - now - planned(0);
        let waits = if waits > Micros::SECOND { waits } else { Micros::ZERO };
        let start = now + waits + longest(0);
        let length = Micros::from(plan.finish) - Micros::from(plan.start) - planned(2);
        let end = start + runs.unwrap_or(length).max(Micros(1));
        let bill = plan.cost.compute_micros + plan.cost.path_micros + plan.cost.transfer_micros;
        let needs: Vec<_> = order.components.iter().map(|c| c.need.clone()).collect();
        Self {
            start,
            end,
            finish: end + longest(2),
            devices: seats.iter().map(|s| u64::from(whole_devices(&needs[s.component]))).sum(),
            loads: loads(&legs),
            seats,
            estimate,
            legs,
            phase: 0,
            planned_bill: runs.is_none().then_some(bill),
            needs,
        }
    }

    /// Until when its devices are expected to be held: a job that runs for longer than was thought may well run for as long
    /// again.
    pub fn expected_end(&self, now: Micros) -> Micros {
        let expected = self.start + self.estimate;
        if expected > now { expected } else { now + (now - self.start) }
    }

    pub fn hosts(&self) -> impl Iterator<Item = usize> + '_ {
        let seats = if self.phase < 2 { &self.seats[..] } else { &[] };
        seats.iter().map(|s| s.host)
    }

    /// Takes the links' capacity. False: there is not so much.
    pub fn hold(&self, world: &mut World) -> bool {
        self.loads.iter().all(|load| world.hold(load.link, load.from(0), 0))
    }

    /// Gives back what the next phase does not need.
    fn next_phase(&mut self, world: &mut World) {
        for load in &self.loads {
            world.hold(load.link, load.from(self.phase + 1), load.from(self.phase));
        }
        self.phase += 1;
    }

    pub fn held(&self, world: &World) -> Held {
        let seat = |s: &Seat| HeldSeat {
            component: s.component,
            site: world.view.sites[world.hosts[s.host].site].site.name.clone(),
            host: s.host,
            model: s.model.clone(),
            devices: s.devices.clone(),
        };
        let link = |l: &Load| HeldLink { link: world.link_id(l.link).clone(), kbps: l.kbps };
        Held { seats: self.seats.iter().map(seat).collect(), links: self.loads.iter().map(link).collect() }
    }

    /// Whether it still needs the site.
    pub fn stands_at(&self, site: usize, world: &World) -> bool {
        self.phase < 2 && self.seats.iter().any(|s| world.hosts[s.host].site == site)
    }

    /// Whether it needs the link; what only brings results out waits and sends again.
    pub fn uses(&self, link: usize) -> bool {
        self.phase < 2 && self.loads.iter().any(|l| l.link == link && l.kbps[self.phase..2].iter().any(|k| *k > 0))
    }

    /// How many of its flows are now over a path slower than their bound, and were not before.
    pub fn late(&mut self, world: &World) -> u64 {
        let phase = self.phase;
        let due = self.legs.iter_mut().filter(|l| !l.late && l.phase >= phase);
        let late = due.filter(|l| l.bound.is_some_and(|bound| l.delay(world) > bound));
        late.map(|l| l.late = true).count() as u64
    }

    fn bytes_moved(&self) -> u64 {
        self.legs.iter().filter(|l| !l.links.is_empty()).map(|l| l.bytes).sum()
    }

    /// What it costs when its devices are held until `until`, in micro-units.
    fn bill(&self, world: &World, until: Micros) -> i64 {
        let zero = Ratio::from_integer(0);
        let mut compute = zero;
        for seat in &self.seats {
            let site = world.hosts[seat.host].site;
            let what = (&self.needs[seat.component], seat.model.as_ref());
            compute += bill::compute(&world.view, site, what, (self.start.min(until), until));
        }
        let (mut transfer, mut path) = (zero, zero);
        for leg in &self.legs {
            let whole_run = (self.finish.min(until) - self.start).0.max(0);
            let held = if leg.bytes > 0 { moving(leg.bytes, leg.kbps) } else { Ratio::from_integer(whole_run.into()) };
            for link in &leg.links {
                let (t, p) = carried(world.tariff(*link), leg.bytes, leg.kbps, held);
                transfer += t;
                path += p;
            }
        }
        rounded(compute) + rounded(transfer) + rounded(path)
    }
}

impl Moving {
    fn new(leg: &Leg, order: &Order, world: &World) -> Self {
        let flow = &order.flows[leg.flow as usize];
        let phase = match LegPhase::of(order, leg) {
            LegPhase::Inbound => 0,
            LegPhase::Run => 1,
            LegPhase::Outbound => 2,
        };
        let access = [&flow.from, &flow.to].into_iter().map(|end| match end {
            End::Region(name) => world.view.regions.get(name).map_or(0, |r| r.access.micros() as i64),
            _ => 0,
        });
        Self {
            links: leg.path.iter().filter_map(|id| world.link_number(id)).collect(),
            phase,
            kbps: leg.rate_kbps,
            bytes: leg.volume_bytes,
            access: Micros(access.sum()),
            bound: flow.max_latency.map(|l| Micros(l.micros() as i64)),
            late: false,
        }
    }

    fn delay(&self, world: &World) -> Micros {
        self.access + world.delay(&self.links)
    }

    fn transmission(&self) -> Micros {
        if self.links.is_empty() {
            return Micros::ZERO;
        }
        Micros(i64::try_from(round_half_up(moving(self.bytes, self.kbps))).unwrap_or(i64::MAX))
    }

    /// How long it really takes.
    fn time(&self, world: &World) -> Micros {
        if self.links.is_empty() { Micros::ZERO } else { world.delay(&self.links) + self.transmission() }
    }
}

/// By link: the sum of the legs of each phase.
fn loads(legs: &[Moving]) -> Vec<Load> {
    let mut loads: BTreeMap<usize, [u64; 3]> = BTreeMap::new();
    for leg in legs {
        for link in &leg.links {
            loads.entry(*link).or_default()[leg.phase] += leg.kbps;
        }
    }
    loads.into_iter().map(|(link, kbps)| Load { link, kbps }).collect()
}

impl Engine<'_> {
    pub(super) fn started(&mut self, job: usize) {
        let Some(run) = self.runs.get_mut(&job) else { return };
        run.next_phase(&mut self.world);
        self.meter.delay_violations += run.late(&self.world);
        self.state += 1;
        self.tell(Event::Started { job });
    }

    pub(super) fn ended(&mut self, job: usize) {
        let this = &self.setup.workload.jobs[job];
        let class = &self.classes[this.class];
        let Some(run) = self.runs.get_mut(&job) else { return };
        run.next_phase(&mut self.world);
        self.world.unseat(&class.order, &run.seats);
        self.history.add(self.queue.kin(job), run.end - run.start);
        self.state += 1;
        self.tell(Event::Ended { job });
    }

    pub(super) fn finished(&mut self, job: usize) {
        let Some(mut run) = self.runs.remove(&job) else { return };
        run.next_phase(&mut self.world);
        self.state += 1;
        let submit = self.setup.workload.jobs[job].submit;
        let meter = &mut self.meter;
        meter.queue.push(run.start - submit);
        meter.completion.push(run.finish - submit);
        meter.device_micros += i128::from((run.end - run.start).0) * i128::from(run.devices);
        meter.bytes_moved += i128::from(run.bytes_moved());
        meter.last_finish = meter.last_finish.max(self.now);
        let bill = run.planned_bill.unwrap_or_else(|| run.bill(&self.world, run.end));
        meter.cost_micros += i128::from(bill);
        self.tell(Event::Finished { job });
    }

    /// Takes everything from the runs that are struck, and lets them wait again.
    pub(super) fn lose(&mut self, struck: impl Fn(&Run, &World) -> bool) {
        let lost: Vec<usize> =
            self.runs.iter().filter(|(_, run)| struck(run, &self.world)).map(|(job, _)| *job).collect();
        for job in lost {
            let Some(mut run) = self.runs.remove(&job) else { continue };
            // what it moved and ran for so far is paid for, and lost
            self.meter.bytes_moved += i128::from(run.bytes_moved());
            self.meter.cost_micros += i128::from(run.bill(&self.world, self.now.max(run.start)));
            while run.phase < 3 {
                run.next_phase(&mut self.world);
            }
            let class = self.setup.workload.jobs[job].class;
            self.world.unseat(&self.classes[class].order, &run.seats);
            self.attempts[job] += 1;
            self.queue.push(job);
            self.tell(Event::Lost { job });
        }
    }
}
