//! A sender, a reflector, and what happens between them.

use std::net::SocketAddr;

use rhumb_probe_session::{
    Answered, Figures, Mode, Now, NtpTime, Reflector, ReflectorConfig, ReplyError, Sender, SenderConfig,
};

pub const MS: u64 = 1_000_000;
/// Time of day at monotonic zero.
const DAY_NS: u128 = 1_790_000_000_000_000_000;
/// The far clock runs that far ahead: nothing may depend on it.
const FAR_AHEAD_NS: u128 = 267_000_000;

pub struct World {
    pub sender: Sender,
    pub reflector: Reflector,
}

pub fn near(ns: u64) -> Now {
    Now { monotonic_ns: ns, wall: NtpTime::from_unix_ns(DAY_NS + u128::from(ns)) }
}

pub fn far(ns: u64) -> Now {
    Now { monotonic_ns: ns, wall: NtpTime::from_unix_ns(DAY_NS + FAR_AHEAD_NS + u128::from(ns)) }
}

pub fn source(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

impl World {
    pub fn new() -> Self {
        Self::with(Mode::Open, 10_000)
    }

    pub fn with(mode: Mode, window_ms: u64) -> Self {
        let config = SenderConfig { ssid: 7, mode: mode.clone(), window_ns: window_ms * MS, ..SenderConfig::default() };
        let limits = ReflectorConfig { mode, packets_per_second: 1_000_000, ..ReflectorConfig::default() };
        Self { sender: Sender::new(config), reflector: Reflector::new(limits) }
    }

    pub fn send(&mut self, at_ns: u64) -> Vec<u8> {
        self.sender.send(near(at_ns))
    }

    /// The reflector gets it and takes a tenth of a millisecond.
    pub fn reflect(&mut self, packet: &[u8], at_ns: u64) -> Vec<u8> {
        self.reflector.reflect(source(1), packet, far(at_ns), || far(at_ns + MS / 10).wall).unwrap()
    }

    pub fn receive(&mut self, reply: &[u8], at_ns: u64) -> Result<Answered, ReplyError> {
        self.sender.on_reply(reply, near(at_ns))
    }

    /// A whole round trip with that time on the wire.
    pub fn trip(&mut self, at_ns: u64, rtt_ns: u64) {
        let packet = self.send(at_ns);
        let reply = self.reflect(&packet, at_ns + rtt_ns / 2);
        self.receive(&reply, at_ns + rtt_ns + MS / 10).unwrap();
    }

    pub fn figures(&self, at_ns: u64) -> Figures {
        self.sender.figures(at_ns)
    }
}

pub fn close(found_ns: u64, expected_ns: u64) -> bool {
    found_ns.abs_diff(expected_ns) < 10
}
