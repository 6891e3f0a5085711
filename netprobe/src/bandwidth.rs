//! One measurement of the bandwidth toward a reflector: packet trains, or a bounded run of TCP.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rhumb_probe_session::{
    Arrival, AvailableConfig, AvailableNext, AvailableRun, BandwidthMethod, BandwidthRun, Confidence, Ended, Found,
    Mode, Next, RunConfig, TRAIN_HEADER_BYTES, TrainHeader, TrainKind, arrivals,
};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};

use crate::ProbeError;
use crate::bandwidth_tcp::run_tcp;
use crate::socket::{MOST_PACKET_BYTES, resolve};

/// UDP and IP headers.
const OVERHEAD_V4: u64 = 28;
const OVERHEAD_V6: u64 = 48;
/// Payload of a packet that passes everywhere.
const PAYLOAD_BYTES: u64 = 1_400;
/// Wait for an answer about a train, and how often it is asked for.
const ANSWER: Duration = Duration::from_secs(1);
const TRIES: u32 = 4;
/// Pause between trains, so that what one left in a queue is gone.
const REST: Duration = Duration::from_millis(50);
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// What to measure and how.
#[derive(Debug, Clone)]
pub struct BandwidthConfig {
    /// Whether packets carry a tag.
    pub mode: Mode,
    /// How.
    pub method: ActiveMethod,
    /// Octets that may be sent.
    pub budget_bytes: u64,
    /// Names the link in the receiver's count.
    pub label: u32,
    /// Octets per packet that the link counts beside the payload; `None`: those of UDP and IP.
    pub overhead_bytes: Option<u64>,
}

/// How bandwidth is measured by sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActiveMethod {
    /// Packet trains: what the link carries.
    Trains,
    /// Packet trains, and then streams with what is left of the budget: what of it is free.
    Available,
    /// A TCP connection for at most two seconds.
    Tcp,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BandwidthSummary {
    /// What the way there carries, in kbit/s of IP packets; `None`: nothing was found out.
    pub rate_kbps: Option<u64>,
    /// What of that others leave free; `None`: not looked for, or not found out.
    #[serde(default)]
    pub available_kbps: Option<u64>,
    /// How it was measured.
    pub method: BandwidthMethod,
    /// How far to trust it.
    pub confidence: Confidence,
    /// Octets that a shaper let through at once, where one was seen.
    pub burst_bytes: Option<u64>,
    /// Why the run ended.
    pub ended: Ended,
    /// Trains and streams sent.
    pub trains: u32,
    /// Packets sent in them.
    pub packets: u32,
    /// Of those, not arrived.
    pub lost: u32,
    /// Octets sent.
    pub sent_bytes: u64,
    /// What the run took.
    pub took_ms: u64,
}

/// Measures once toward the reflector at HOST:PORT. Sends no more than the budget; stops when packets are lost.
pub async fn bandwidth(target: &str, config: BandwidthConfig) -> Result<BandwidthSummary, ProbeError> {
    measure(resolve(target).await?, config).await
}

/// As `bandwidth`, of a reflector whose address is known.
pub async fn measure(target: SocketAddr, config: BandwidthConfig) -> Result<BandwidthSummary, ProbeError> {
    let failed = |source| ProbeError::Measure { target, source };
    match config.method {
        ActiveMethod::Tcp => run_tcp(target, &config.mode, config.budget_bytes).await.map_err(failed),
        ActiveMethod::Trains | ActiveMethod::Available => {
            let run = tokio::task::spawn_blocking(move || Run::new(target, &config).and_then(Run::finish));
            run.await.unwrap_or_else(|panic| Err(io::Error::other(panic))).map_err(failed)
        }
    }
}

struct Run {
    socket: UdpSocket,
    mode: Mode,
    run: u32,
    label: u32,
    packet_bytes: u64,
    budget_bytes: u64,
    method: ActiveMethod,
    /// Trains and streams sent: each has a number of its own.
    sent: u32,
    begun: Instant,
}

impl Run {
    fn new(target: SocketAddr, config: &BandwidthConfig) -> io::Result<Self> {
        let (any, overhead) = match target {
            SocketAddr::V4(_) => (SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), OVERHEAD_V4),
            SocketAddr::V6(_) => (SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)), OVERHEAD_V6),
        };
        let socket = Socket::new(Domain::for_address(target), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
        socket.bind(&any.into())?;
        socket.connect(&target.into())?;
        socket.set_read_timeout(Some(ANSWER))?;
        let packet_bytes = PAYLOAD_BYTES + config.overhead_bytes.unwrap_or(overhead);
        Ok(Self {
            socket: socket.into(),
            mode: config.mode.clone(),
            run: StdRng::from_os_rng().random(),
            label: config.label,
            packet_bytes,
            budget_bytes: config.budget_bytes,
            method: config.method,
            sent: 0,
            begun: Instant::now(),
        })
    }

    fn finish(mut self) -> io::Result<BandwidthSummary> {
        let found = self.capacity()?;
        let mut summary = BandwidthSummary {
            rate_kbps: found.rate_kbps,
            available_kbps: None,
            method: BandwidthMethod::Trains,
            confidence: found.confidence,
            burst_bytes: found.burst_bytes,
            ended: found.ended,
            trains: found.trains,
            packets: found.packets,
            lost: found.lost,
            sent_bytes: found.sent_bytes,
            took_ms: 0,
        };
        // where trains were lost there is nothing free to look for
        let whole = found.rate_kbps.filter(|_| self.method == ActiveMethod::Available && found.ended != Ended::Loss);
        if let Some(top_kbps) = whole {
            self.free(top_kbps, &mut summary)?;
        }
        summary.took_ms = self.begun.elapsed().as_millis() as u64;
        Ok(summary)
    }

    /// What the link carries.
    fn capacity(&mut self) -> io::Result<Found> {
        let (packet_bytes, budget_bytes) = (self.packet_bytes, self.budget_bytes);
        let mut run = BandwidthRun::new(RunConfig { packet_bytes, burst_bytes: 128_000, budget_bytes });
        loop {
            match run.step() {
                Next::Train { packets, pace_kbps, .. } => {
                    let (_, arrived) = self.train(packets, pace_kbps)?;
                    run.arrived(packets, &arrived);
                }
                Next::Done(found) => return Ok(found),
            }
        }
    }

    /// What of it is free.
    fn free(&mut self, top_kbps: u64, summary: &mut BandwidthSummary) -> io::Result<()> {
        let budget_bytes = self.budget_bytes.saturating_sub(summary.sent_bytes);
        let mut run = AvailableRun::new(AvailableConfig { packet_bytes: self.packet_bytes, top_kbps, budget_bytes });
        loop {
            match run.step() {
                AvailableNext::Stream { packets, pace_kbps, .. } => {
                    let (sent, arrived) = self.train(packets, Some(pace_kbps))?;
                    run.arrived(&sent, &arrived);
                }
                AvailableNext::Done(found) => {
                    summary.available_kbps = found.rate_kbps();
                    summary.trains += found.streams;
                    summary.packets += found.packets;
                    summary.lost += found.lost;
                    summary.sent_bytes += found.sent_bytes;
                    return Ok(());
                }
            }
        }
    }

    /// One train, when its packets went, and what came of it.
    fn train(&mut self, packets: u32, pace_kbps: Option<u64>) -> io::Result<(Vec<u64>, Vec<Arrival>)> {
        let train = self.sent;
        self.sent += 1;
        let sent = self.send(train, packets, pace_kbps)?;
        let arrived = self.collect(train)?;
        std::thread::sleep(REST);
        Ok((sent, arrived))
    }

    fn header(&self, kind: TrainKind, train: u32, index: u32, count: u32) -> TrainHeader {
        TrainHeader { kind, run: self.run, train, index, count, label: self.label }
    }

    /// All packets are made before the first is sent: what making them takes must not stretch the train.
    fn send(&self, train: u32, packets: u32, pace_kbps: Option<u64>) -> io::Result<Vec<u64>> {
        let data =
            |index| self.header(TrainKind::Data, train, index, packets).encode(PAYLOAD_BYTES as usize, &self.mode);
        let made: Vec<_> = (0..packets).map(data).collect();
        // octets x 8,000,000 / (kbit/s) = ns
        let gap_ns = pace_kbps.map_or(0, |pace| self.packet_bytes * 8_000_000 / pace.max(1));
        let (start, mut times) = (Instant::now(), Vec::with_capacity(made.len()));
        for (index, packet) in made.iter().enumerate() {
            let due = Duration::from_nanos(gap_ns * index as u64);
            while start.elapsed() < due {
                std::hint::spin_loop();
            }
            times.push(start.elapsed().as_nanos() as u64);
            match self.socket.send(packet) {
                // a closed port's refusal of an earlier packet, or a full queue of the host: lost as by the network
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock) => {}
                sent => sent.map(drop)?,
            }
        }
        Ok(times)
    }

    /// The arrivals, piece by piece; what is there when nobody answers any more.
    fn collect(&self, train: u32) -> io::Result<Vec<Arrival>> {
        let mut found: Vec<Arrival> = Vec::new();
        let mut tries = 0;
        while tries < TRIES {
            let from = found.len() as u32;
            let question = self.header(TrainKind::Question, train, from, 0).encode(PAYLOAD_BYTES as usize, &self.mode);
            match self.socket.send(&question) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                sent => sent.map(drop)?,
            }
            match self.answer(train, from)? {
                Some((all, piece)) => {
                    tries = 0;
                    let nothing = piece.is_empty();
                    found.extend(piece);
                    if nothing || found.len() >= all as usize {
                        return Ok(found);
                    }
                }
                None => tries += 1,
            }
        }
        Ok(found)
    }

    /// The answer about arrivals from `from` on: how many there are in all, and a piece of them.
    fn answer(&self, train: u32, from: u32) -> io::Result<Option<(u32, Vec<Arrival>)>> {
        let mut buffer = [0; MOST_PACKET_BYTES];
        let until = Instant::now() + ANSWER;
        while Instant::now() < until {
            let length = match self.socket.recv(&mut buffer) {
                Ok(length) => length,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => break,
                Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted) => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let octets = &buffer[..length];
            let Ok(header) = TrainHeader::decode(octets, &self.mode) else { continue };
            let asked = self.header(TrainKind::Answer, train, from, header.count);
            if let (true, Some(piece)) = (header == asked && length >= TRAIN_HEADER_BYTES, arrivals(octets)) {
                return Ok(Some((header.count, piece)));
            }
        }
        Ok(None)
    }
}
