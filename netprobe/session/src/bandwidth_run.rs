//! How many trains of what length: longer and longer until the rate no longer depends on the length, within a budget.

use rhumb_model::Confidence;
use serde::{Deserialize, Serialize};

use crate::bandwidth::{MOST_CREDIBLE_KBPS, TrainRate, train_rate};
use crate::train::{Arrival, MOST_TRAIN_PACKETS};

/// The first train.
const FIRST_PACKETS: u32 = 32;
/// Rates of trains of different length agree within this part (one in so many).
const AGREE_PART: u64 = 20;
/// Trains that must agree.
const AGREEING: usize = 3;
/// Trains of one run.
const MOST_TRAINS: usize = 12;
/// Time that a shaper's burst may last at the rate seen: a train that is to be believed takes longer.
const BURST_US: u64 = 5_000;
/// The longest a train may fill a queue at the rate seen.
const MOST_QUEUE_US: u64 = 100_000;
/// How many times the rate seen last a train is sent at.
const PACE: u64 = 4;
/// A tail of fewer arrivals than this is not believed, and after a knee none that is shorter: hosts wake up late by
/// milliseconds.
const LEAST_TAIL: usize = 16;
const LEAST_TAIL_US: u64 = 15_000;
/// Loss above this part (one in so many) of a train is harm: it is not repeated, let alone made longer.
const HARM_PART: u32 = 50;

/// What a run goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunConfig {
    /// Octets of each packet as the link counts them.
    pub packet_bytes: u64,
    /// Shapers let at most this many octets through at once; a train that is believed is longer.
    pub burst_bytes: u64,
    /// Octets that the run may send.
    pub budget_bytes: u64,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Send a train of this many packets.
    Train {
        /// Ordinal in the run.
        train: u32,
        /// Its length.
        packets: u32,
        /// Send it no faster than this; `None`: back to back. A few times the rate seen last shows a knee as well as the
        /// wire's speed does, and spares the queues in between.
        pace_kbps: Option<u64>,
    },
    /// The run is over.
    Done(Found),
}

/// What a run found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// `None`: no train said anything.
    pub rate_kbps: Option<u64>,
    /// How far to trust it.
    pub confidence: Confidence,
    /// Octets that a shaper let through at once, where one was seen.
    pub burst_bytes: Option<u64>,
    /// Why it ended.
    pub ended: Ended,
    /// Trains sent.
    pub trains: u32,
    /// Packets sent.
    pub packets: u32,
    /// Of those, not arrived.
    pub lost: u32,
    /// Octets sent, as the link counts them.
    pub sent_bytes: u64,
}

/// Why a run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Enough trains agree.
    Agreed,
    /// Packets were lost: going on would harm what else uses the link.
    Loss,
    /// The next train would be over the budget.
    Budget,
    /// Trains did not come to agree.
    Trains,
    /// Nothing arrived.
    Silence,
}

/// A run of trains.
#[derive(Debug)]
pub struct BandwidthRun {
    config: RunConfig,
    rates: Vec<(u32, TrainRate)>,
    trains: u32,
    packets: u32,
    lost: u32,
    sent_bytes: u64,
    ended: Option<Ended>,
}

impl BandwidthRun {
    /// A run that has sent nothing.
    pub fn new(config: RunConfig) -> Self {
        Self { config, rates: Vec::new(), trains: 0, packets: 0, lost: 0, sent_bytes: 0, ended: None }
    }

    /// What to do now.
    pub fn step(&mut self) -> Next {
        if self.ended.is_none() && self.agreeing(AGREE_PART) >= AGREEING {
            self.ended = Some(Ended::Agreed);
        }
        if self.ended.is_none() && self.trains as usize >= MOST_TRAINS {
            self.ended = Some(Ended::Trains);
        }
        let packets = self.length();
        let cost = u64::from(packets) * self.config.packet_bytes;
        if self.ended.is_none() && self.sent_bytes + cost > self.config.budget_bytes {
            self.ended = Some(Ended::Budget);
        }
        if let Some(ended) = self.ended {
            return Next::Done(self.found(ended));
        }
        let pace_kbps = self.rates.last().map(|(_, rate)| rate.rate_kbps.saturating_mul(PACE));
        Next::Train { train: self.trains, packets, pace_kbps }
    }

    /// What became of the train that was asked for last.
    pub fn arrived(&mut self, packets: u32, arrivals: &[Arrival]) {
        self.trains += 1;
        self.packets += packets;
        self.sent_bytes += u64::from(packets) * self.config.packet_bytes;
        let lost = packets.saturating_sub(arrivals.len() as u32);
        self.lost += lost;
        match train_rate(arrivals, packets, self.config.packet_bytes) {
            Some(rate) => self.rates.push((packets, rate)),
            None if arrivals.is_empty() => self.ended = Some(Ended::Silence),
            None => {}
        }
        if lost > packets / HARM_PART {
            self.ended.get_or_insert(Ended::Loss);
        }
    }

    /// Twice as long while the last train may have been all burst, within what a queue may hold.
    fn length(&self) -> u32 {
        let Some((packets, rate)) = self.rates.last() else { return FIRST_PACKETS };
        if self.is_believed(*packets, rate) {
            return *packets;
        }
        // kbit/s x us / 8,000 = octets
        let queue = rate.rate_kbps.saturating_mul(MOST_QUEUE_US).div_ceil(8_000 * self.config.packet_bytes.max(1));
        let most = queue.clamp(u64::from(FIRST_PACKETS), u64::from(MOST_TRAIN_PACKETS)) as u32;
        // a tail that is too short for its knee needs the length of the burst again
        (packets * 2).min(most.max(*packets))
    }

    /// Whether the train was longer than a burst can be, or its knee was seen with enough behind it, or it is as long as one
    /// may be.
    fn is_believed(&self, packets: u32, rate: &TrainRate) -> bool {
        let queued_us = u64::from(packets).saturating_mul(self.config.packet_bytes * 8_000) / rate.rate_kbps.max(1);
        let longest = packets >= MOST_TRAIN_PACKETS || queued_us >= MOST_QUEUE_US;
        let tail_us = (rate.tail as u64).saturating_mul(self.config.packet_bytes * 8_000) / rate.rate_kbps.max(1);
        let clear = rate.burst_bytes.is_none() || tail_us >= LEAST_TAIL_US;
        longest || (rate.tail >= LEAST_TAIL && clear && self.outlasts_bursts(packets, rate))
    }

    fn outlasts_bursts(&self, packets: u32, rate: &TrainRate) -> bool {
        let burst = self.config.burst_bytes.max(rate.rate_kbps.saturating_mul(BURST_US) / 8_000);
        rate.burst_bytes.is_some() || u64::from(packets) * self.config.packet_bytes >= burst
    }

    /// The rates of the trains that are believed, rising.
    fn believed(&self) -> Vec<u64> {
        let believed = self.rates.iter().filter(|(packets, rate)| self.is_believed(*packets, rate));
        let mut rates: Vec<u64> = believed.map(|(_, rate)| rate.rate_kbps).collect();
        rates.sort_unstable();
        rates
    }

    /// How many of the believed rates agree with their median within one part in `part`: one that a busy host has spoilt does
    /// not undo the others.
    fn agreeing(&self, part: u64) -> usize {
        let rates = self.believed();
        let Some(median) = rates.get(rates.len() / 2) else { return 0 };
        rates.iter().filter(|rate| agree(**rate, *median, part)).count()
    }

    fn found(&self, ended: Ended) -> Found {
        let rates = self.believed();
        let rate_kbps = match rates.get(rates.len() / 2) {
            Some(median) => Some(*median),
            None => self.rates.last().map(|(_, rate)| rate.rate_kbps),
        };
        let credible = rate_kbps.is_some_and(|rate| rate <= MOST_CREDIBLE_KBPS);
        let outlasts = self.rates.last().is_some_and(|(packets, rate)| self.outlasts_bursts(*packets, rate));
        let confidence = match () {
            () if !credible => Confidence::Low,
            () if outlasts && self.agreeing(AGREE_PART) >= AGREEING => Confidence::High,
            () if self.agreeing(AGREE_PART / 2) >= 2 => Confidence::Medium,
            () => Confidence::Low,
        };
        let mut believed = self.rates.iter().rev().filter(|(packets, rate)| self.is_believed(*packets, rate));
        Found {
            rate_kbps,
            confidence,
            burst_bytes: believed.find_map(|(_, rate)| rate.burst_bytes),
            ended,
            trains: self.trains,
            packets: self.packets,
            lost: self.lost,
            sent_bytes: self.sent_bytes,
        }
    }
}

fn agree(a: u64, b: u64, part: u64) -> bool {
    a.abs_diff(b) <= a.max(b) / part
}
