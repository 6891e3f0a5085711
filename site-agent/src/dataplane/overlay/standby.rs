//! A path before it carries, and while another does: it is probed over its whole length.

use super::{
    bucket::{Bucket, frame_bytes},
    cell::RouteCell,
    config::Limits,
    frame::{Frame, Open},
    hop::{Hop, Lost},
    leg::Shared,
    spec::Tuning,
};
use rhumb_model::Bandwidth;
use rhumb_wire::{Duty, TestedRate};
use std::{collections::VecDeque, pin::pin, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

/// Probes before a path is called active: the first also waits for the circuit to be built.
const PROBES: u64 = 6;
/// Round trips kept; the shortest of them counts, as what is longer was waiting somewhere.
const KEPT: usize = 8;
/// A test whose bytes came slower than this share of their rate is made again, in case it was this host that was busy.
pub(crate) const GOOD_PERCENT: u64 = 90;
const TESTS: usize = 3;
/// Probes between two rounds of tests.
const AGAIN: u64 = 4;
/// A path of less is not tested: it would take seconds.
const LEAST: Bandwidth = Bandwidth::from_kbps(64);
const FILL_LEAST: u64 = 16 << 10;

/// At the source: builds the circuit through to the sink and measures it. One that is to carry at once is not kept waiting
/// by a test of its rate.
pub(crate) async fn prove(
    hop: &mut Hop,
    cell: &RouteCell,
    tuning: &watch::Receiver<Tuning>,
    limits: &Limits,
) -> Result<(), Lost> {
    let (duty, rate) = {
        let tuning = tuning.borrow();
        (tuning.duty, tuning.rate)
    };
    let probes = if duty == Duty::Carry { 2 } else { PROBES };
    let mut least = Duration::MAX;
    for number in 0..probes {
        let (rtt, ..) = probe(hop, number, limits).await?;
        if number > 0 {
            least = least.min(rtt);
        }
    }
    let tested = if duty == Duty::Carry || rate < LEAST || cell.is_tested() {
        None
    } else {
        Some(test(hop, rate, limits).await?)
    };
    cell.measured(micros(least), tested);
    Ok(())
}

async fn probe(hop: &mut Hop, number: u64, limits: &Limits) -> Result<(Duration, u64, u64), Lost> {
    let begun = Instant::now();
    hop.writer.frame(&Frame::Probe { number }).await?;
    let reader = &mut hop.reader;
    let echoed = timeout(limits.open, async {
        loop {
            match reader.frame().await? {
                Frame::Echo { number: of, filled, us } if of == number => return Ok((filled, us)),
                Frame::Echo { .. } => {}
                _ => return Err(Lost::Protocol("a probe is not answered by that")),
            }
        }
    });
    let (filled, us) = hop.writer.idle_until(echoed).await?.map_err(|_| Lost::Silent(limits.open))??;
    Ok((begun.elapsed(), filled, us))
}

/// Sends a few bytes at the route's rate and hears how fast they came out.
async fn test(hop: &mut Hop, rate: Bandwidth, limits: &Limits) -> Result<TestedRate, Lost> {
    let most = limits.test_bytes.saturating_mul(8) / u64::try_from(limits.test_time.as_millis()).unwrap_or(1).max(1);
    let sent = rate.min(Bandwidth::from_kbps(most));
    let bytes = (sent.kbps().saturating_mul(micros(limits.test_time) * 2) / 8_000).clamp(FILL_LEAST, limits.test_bytes);
    let mut best = Bandwidth::ZERO;
    for number in 0..TESTS as u64 {
        let mut bucket = Bucket::new(Instant::now());
        let mut left = bytes;
        while left > 0 {
            let piece = frame_bytes(sent).min(usize::try_from(left).unwrap_or(usize::MAX));
            while let Err(wait) = bucket.take(piece, sent, Instant::now()) {
                hop.writer.idle_until(sleep(wait)).await?;
            }
            hop.writer.frame(&Frame::Fill(u16::try_from(piece).unwrap_or(u16::MAX))).await?;
            left -= piece as u64;
        }
        let (_, filled, us) = probe(hop, PROBES + number, limits).await?;
        best = best.max(Bandwidth::from_kbps(filled.saturating_mul(8_000) / us.max(1)));
        if best.kbps().saturating_mul(100) >= sent.kbps().saturating_mul(GOOD_PERCENT) {
            break;
        }
    }
    Ok(TestedRate { sent, arrived: best.min(sent) })
}

/// At the source: probes the path until its turn comes. Where nothing comes back for as long as counts as silence, it is
/// lost, wherever it was cut.
pub(crate) async fn wait(
    hop: &mut Hop,
    cell: &RouteCell,
    leg: &Shared,
    tuning: &watch::Receiver<Tuning>,
    limits: &Limits,
) -> Result<(), Lost> {
    let mut turn = pin!(leg.its_turn(cell.spec.key.path));
    let every = limits.probe.min(hop.writer.keep_alive);
    let mut window = VecDeque::with_capacity(KEPT);
    let mut heard = Instant::now();
    for number in PROBES + TESTS as u64.. {
        let begun = Instant::now();
        if begun.duration_since(heard) > hop.reader.silence {
            return Err(Lost::Silent(hop.reader.silence));
        }
        let (duty, rate) = {
            let tuning = tuning.borrow();
            (tuning.duty, tuning.rate)
        };
        // one bad test may have been a busy host's: nothing begins before there is a better one
        if duty == Duty::Measure && number.is_multiple_of(AGAIN) && rate >= LEAST && !cell.is_tested() {
            let tested = test(hop, rate, limits).await?;
            cell.tested(tested);
            heard = Instant::now();
        }
        if number > PROBES + TESTS as u64 {
            hop.writer.frame(&Frame::Probe { number }).await?;
        }
        loop {
            tokio::select! {
                biased;
                () = &mut turn => return Ok(()),
                frame = hop.reader.frame() => match frame? {
                    Frame::Echo { number: of, .. } => {
                        heard = Instant::now();
                        cell.active();
                        if of == number {
                            if window.len() == KEPT {
                                window.pop_front();
                            }
                            window.push_back(begun.elapsed());
                            cell.measured(micros(window.iter().copied().min().unwrap_or_default()), None);
                        }
                    }
                    _ => return Err(Lost::Protocol("a probe is not answered by that")),
                },
                () = sleep_until(begun + every) => break,
            }
        }
    }
    Err(Lost::Closed)
}

/// At the sink: answers probes until the source has the leg's bytes take this path.
pub(crate) async fn answer(hop: &mut Hop, cell: &RouteCell) -> Result<Open, Lost> {
    let mut filling: Option<(Instant, Instant, u64)> = None;
    loop {
        match hop.writer.idle_until(hop.reader.frame()).await?? {
            Frame::Probe { number } => {
                let (filled, us) =
                    filling.take().map_or((0, 0), |(first, last, bytes)| (bytes, micros(last.duration_since(first))));
                cell.active();
                hop.writer.frame(&Frame::Echo { number, filled, us }).await?;
            }
            Frame::Fill(bytes) => {
                let now = Instant::now();
                filling = Some(match filling {
                    None => (now, now, 0),
                    Some((first, _, before)) => (first, now, before + u64::from(bytes)),
                });
            }
            Frame::Open(open) => return Ok(open),
            _ => return Err(Lost::Protocol("a circuit begins by probing or opening it")),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
