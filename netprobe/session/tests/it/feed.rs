//! What must hold whatever comes from the network; shared with the fuzz target.

use std::net::SocketAddr;

use rhumb_probe_session::{
    Extensions, Incoming, Key, Mode, Now, NtpTime, Received, Reflector, ReflectorConfig, Sender, SenderConfig,
    Unanswered,
};

const KEY: [u8; 16] = [7; 16];

/// Octets as they are, and as what follows a base of ours, to a reflector and to a sender of each mode.
pub fn feed(octets: &[u8]) {
    let tagged = Mode::Authenticated(Key::new(&KEY).expect("sixteen octets are a key"));
    for mode in [Mode::Open, tagged] {
        let base = sender(&mode).send(now(1_000));
        reflect(&mode, octets);
        reflect(&mode, &[&base, octets].concat());
        let answer = reflect(&mode, &base).expect("a probe of the same key is answered");
        take(&mode, octets);
        take(&mode, &[&answer, octets].concat());
    }
}

fn now(ns: u64) -> Now {
    Now { monotonic_ns: ns, wall: NtpTime::from_unix_ns(1_790_000_000_000_000_000 + u128::from(ns)) }
}

fn sender(mode: &Mode) -> Sender {
    let all = Extensions { packet_bytes: 0, service: Some(10), direct: true, clock_source: true, counters: true };
    let extensions = if matches!(mode, Mode::Open) { Extensions::default() } else { all };
    Sender::new(SenderConfig { mode: mode.clone(), extensions, ..SenderConfig::default() })
}

/// The answer, if any, is as long as the question, and gets no answer itself.
fn reflect(mode: &Mode, octets: &[u8]) -> Option<Vec<u8>> {
    let config = ReflectorConfig { mode: mode.clone(), ..ReflectorConfig::default() };
    let incoming = Incoming::new(SocketAddr::from(([192, 0, 2, 1], 862)), now(2_000));
    let mut reflector = Reflector::new(config.clone());
    let reply = reflector.answer(&incoming, octets, || now(3_000).wall).ok()?;
    assert_eq!(reply.octets.len(), octets.len());
    assert!(reply.dscp < 64);
    let again = Reflector::new(config).answer(&incoming, &reply.octets, || now(4_000).wall);
    assert_eq!(again, Err(Unanswered::Echoed));
    Some(reply.octets)
}

/// One probe was sent: it is answered, or it is not.
fn take(mode: &Mode, octets: &[u8]) {
    let mut sender = sender(mode);
    sender.send(now(1_000));
    for _ in 0..2 {
        let received = Received { at: now(5_000), ttl: Some(1), dscp: None };
        let _ = sender.on_answer(octets, received);
        let figures = sender.figures(6_000);
        assert_eq!((figures.sent, figures.received + figures.pending), (1, 1));
    }
    let late = sender.figures(60_000_000_000);
    assert_eq!(late.sent, late.received + late.lost() + late.pending);
}
