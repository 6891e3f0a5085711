//! A simulated Internet: cities on a globe, points around them, and a prober at each that draws its gaps as the real one does.

use rhumb_mesh::{Estimator, Measured, MeshConfig, Plan, plan};
use rhumb_model::{Latency, Span};
use std::collections::BTreeSet;

/// Time between reports of an agent that has nothing new to say but figures.
const REPORT_US: u64 = 3_000_000;

pub struct World {
    places: Vec<Place>,
    seed: u64,
}

struct Place {
    city: usize,
    lat: f64,
    lon: f64,
    access_us: f64,
}

/// What a run of the simulation says.
#[derive(Debug)]
pub struct Findings {
    pub sessions: usize,
    pub most_sessions_of_one: usize,
    /// Octets on the wire per second, probes and answers, in the first minute and in the steady state after it.
    pub mean_bytes_s: u64,
    pub most_bytes_s: u64,
    /// From the moment on that every agent has its targets.
    pub first_coordinates_us: u64,
    pub first_bounds_us: u64,
    /// Of the pairs that are not measured, in parts per thousand of the truth.
    pub median_error: u64,
    pub p90_error: u64,
    pub within_bounds: u64,
}

/// Steele, Lea, Flood: SplitMix64 (OOPSLA 2014).
pub fn mix(seed: u64) -> u64 {
    let a = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let b = (a ^ (a >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let c = (b ^ (b >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    c ^ (c >> 31)
}

/// In [0, 1).
pub fn unit(seed: u64) -> f64 {
    (mix(seed) >> 11) as f64 / (1_u64 << 53) as f64
}

impl World {
    pub fn new(points: usize, seed: u64) -> Self {
        let draw = |what: u64, i: usize| unit(mix(seed ^ (what << 40)) ^ i as u64);
        let city = |i: usize| (draw(1, i) * 110.0 - 45.0, draw(2, i) * 360.0 - 180.0);
        let place = |i: usize| {
            let town = (draw(3, i) * 60.0) as usize;
            let (lat, lon) = city(town);
            let access_us = -(1.0 - draw(4, i)).ln() * 800.0 + 100.0;
            Place { city: town, lat: lat + draw(5, i) * 2.0 - 1.0, lon: lon + draw(6, i) * 2.0 - 1.0, access_us }
        };
        Self { places: (0..points).map(place).collect(), seed }
    }

    /// Distance in km.
    fn km(&self, a: usize, b: usize) -> f64 {
        let (a, b) = (&self.places[a], &self.places[b]);
        let half = |x: f64, y: f64| ((x - y).to_radians() / 2.0).sin().powi(2);
        let h = half(a.lat, b.lat) + a.lat.to_radians().cos() * b.lat.to_radians().cos() * half(a.lon, b.lon);
        2.0 * 6_371.0 * h.sqrt().min(1.0).asin()
    }

    /// What configuration would say: light in glass on a straight way, and some access.
    pub fn prior(&self, a: usize, b: usize) -> Latency {
        Latency::from_micros((self.km(a, b) * 10.0) as u64 + 500)
    }

    /// The true round trip: detours of 20 to 60 %, as good as the worse connected city of the two, and up to 3 % more of each
    /// pair, so that the triangle inequality breaks now and then, as it does in the Internet.
    pub fn rtt(&self, a: usize, b: usize) -> Latency {
        let (low, high) = (a.min(b), a.max(b));
        let (here, there) = (&self.places[low], &self.places[high]);
        let connected = |city: usize| unit(self.seed ^ mix(city as u64)).powi(2) * 0.4;
        let own = unit(self.seed ^ mix(!((low * self.places.len() + high) as u64))) * 0.03;
        let detour = 1.2 + connected(here.city).max(connected(there.city)) + own;
        let us = self.km(a, b) * 10.0 * detour + here.access_us + there.access_us;
        Latency::from_micros(us as u64)
    }

    /// Points that hold links in use: each with two of its city or another.
    fn used(&self) -> BTreeSet<(usize, usize)> {
        let n = self.places.len();
        (0..2 * n).map(|i| (i % n, (mix(self.seed ^ 0x4d ^ i as u64) % n as u64) as usize)).collect()
    }

    pub fn plan(&self, config: &MeshConfig) -> Plan {
        plan(self.places.len(), &self.used(), config, |_, _| true, |a, b| Some(self.prior(a, b)))
    }

    pub fn run(&self, config: &MeshConfig) -> Findings {
        let n = self.places.len();
        let plan = self.plan(config);
        let (mut sessions_of, mut bytes) = (vec![0; n], vec![0_u64; n]);
        let mut known_at = vec![u64::MAX; n];
        // by point: when the orchestrator knows its round trip to each landmark
        let mut marks = vec![vec![u64::MAX; plan.landmarks.len()]; n];
        for (i, session) in plan.sessions.iter().enumerate() {
            sessions_of[session.from] += 1;
            let dice = mix(self.seed ^ 0xabcd ^ i as u64);
            let sent = gap_us(session.interval, dice) / 4;
            let answered = sent + self.rtt(session.from, session.to).micros();
            let phase = mix(self.seed ^ 0x5eed ^ session.from as u64) % REPORT_US;
            let told = (answered.saturating_sub(phase)).div_ceil(REPORT_US) * REPORT_US + phase;
            for end in [session.from, session.to] {
                known_at[end] = known_at[end].min(told);
            }
            if let Some(mark) = plan.landmarks.iter().position(|l| *l == session.to) {
                marks[session.from][mark] = marks[session.from][mark].min(told);
            }
            // a minute of probes and answers
            let (mut at, mut count) = (sent, 0);
            while at < 60_000_000 {
                count += 1;
                at += gap_us(session.interval, mix(dice ^ (count << 20)));
            }
            for end in [session.from, session.to] {
                bytes[end] += count * config.packet.bytes();
            }
        }
        for (mark, landmark) in plan.landmarks.iter().enumerate() {
            marks[*landmark][mark] = 0;
        }
        let first = |a: usize, b: usize| marks[a].iter().zip(&marks[b]).map(|(x, y)| *x.max(y)).min();
        let first_bounds_us = (0..n).flat_map(|a| (0..a).map(move |b| (a, b))).filter_map(|(a, b)| first(a, b)).max();
        let pairs = plan.sessions.iter().map(|s| (s.from, s.to, self.rtt(s.from, s.to)));
        let (errors, within) = self.errors(&Estimator::new(Measured::new(n, pairs)));
        Findings {
            sessions: plan.sessions.len(),
            most_sessions_of_one: sessions_of.iter().copied().max().unwrap(),
            mean_bytes_s: bytes.iter().sum::<u64>() / 60 / n as u64,
            most_bytes_s: bytes.iter().max().unwrap() / 60,
            first_coordinates_us: known_at.into_iter().max().unwrap(),
            first_bounds_us: first_bounds_us.unwrap_or(0),
            median_error: errors[errors.len() / 2],
            p90_error: errors[errors.len() * 9 / 10],
            within_bounds: within,
        }
    }

    /// Errors of the pairs that were not measured, sorted, and how many per thousand of them lie within their bounds.
    fn errors(&self, estimator: &Estimator) -> (Vec<u64>, u64) {
        let n = self.places.len();
        let (mut errors, mut within) = (Vec::new(), 0);
        for a in 0..n {
            for b in (0..a).filter(|b| estimator.measured().rtt(a, *b).is_none()) {
                let (truth, found) = (self.rtt(a, b).micros(), estimator.estimate(a, b).unwrap());
                errors.push(found.rtt.micros().abs_diff(truth) * 1_000 / truth.max(1));
                let bounds = found.bounds.unwrap();
                within += u64::from(bounds.low.micros() <= truth && truth <= bounds.high.micros());
            }
        }
        errors.sort_unstable();
        (errors.clone(), within * 1_000 / errors.len() as u64)
    }
}

/// Exponential gaps, cut at 1/20 and 4 of the mean.
fn gap_us(interval: Span, dice: u64) -> u64 {
    (interval.micros() as f64 * (-(1.0 - unit(dice)).ln()).clamp(0.05, 4.0)) as u64
}
