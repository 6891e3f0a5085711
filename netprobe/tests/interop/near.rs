//! Their sender, our reflector.

use std::net::SocketAddr;

use rhumb_probe::{Mode, Reflector, ReflectorConfig};
use serde_json::Value;

use crate::peer::{ALLOWED_US, DELAY_US, KeyFile, link, program, send};
use crate::relay::Relay;

const COUNT: u64 = 200;

fn reflector(host: &str, mode: Mode) -> Reflector {
    let address = SocketAddr::new(host.parse().unwrap(), 0);
    Reflector::bind(address, ReflectorConfig { mode, ..ReflectorConfig::default() }).unwrap()
}

/// Whether the least round trip is that of the link, to half a millisecond.
fn is_close(summary: &Value) -> bool {
    let min_us = (summary["min_rtt_ms"].as_f64().unwrap() * 1_000.0) as u64;
    println!("least round trip {min_us} us, lost {}", summary["packets_lost"]);
    assert!(min_us >= 2 * DELAY_US, "{min_us} us is faster than the link");
    min_us <= 2 * DELAY_US + ALLOWED_US
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bare_sender_is_answered() {
    let Some(program) = program() else { return };
    let far = reflector("127.0.0.1", Mode::Open);
    let (_emulator, front) = link(far.address());
    for attempt in 0.. {
        let summary = send(&program, front, COUNT, &[]).await;
        assert_eq!((&summary["packets_received"], &summary["packets_lost"]), (&COUNT.into(), &0.into()));
        assert_eq!(summary["measurements"]["reordered_replies"], 0);
        if is_close(&summary) {
            break;
        }
        assert!(attempt < 3, "{summary}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tagged_sender_with_chains_is_answered() {
    let Some(program) = program() else { return };
    let key = KeyFile::new();
    let far = reflector("127.0.0.1", key.mode().await);
    let (_emulator, front) = link(far.address());
    let asked =
        "--cos --dscp 10 --direct-measurement --timestamp-info --extra-padding 200 --verify-tlv-hmac --tlv-hmac on";
    let chains: Vec<String> = asked.split_whitespace().map(Into::into).collect();
    for options in [key.options(), [key.options(), chains].concat()] {
        let summary = send(&program, front, COUNT, &options).await;
        assert_eq!(summary["packets_received"], COUNT, "{summary}");
        is_close(&summary);
        let validation = &summary["measurements"]["tlv_validation"];
        assert_eq!(validation["rejected_replies"], 0, "{validation}");
        for flag in ["unrecognized", "malformed", "integrity_failed"] {
            assert_eq!(validation["flags"][flag], 0, "{validation}");
        }
        if options.len() > 4 {
            assert_eq!(validation["hmac"]["verified"], COUNT, "{validation}");
            let direct = &summary["measurements"]["direct_measurement"];
            assert_eq!((&direct["forward_missing"], &direct["reverse_missing"]), (&0.into(), &0.into()), "{direct}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_peer_counts_what_the_relay_dropped() {
    let Some(program) = program() else { return };
    let key = KeyFile::new();
    for (mode, options) in [(Mode::Open, vec![]), (key.mode().await, key.options())] {
        let far = reflector("127.0.0.1", mode);
        let (_emulator, front) = link(far.address());
        for attempt in 0.. {
            let relay = Relay::start(front);
            let summary = send(&program, relay.address, COUNT, &options).await;
            let dropped = relay.dropped_there() + relay.dropped_back();
            assert!(dropped > 0);
            assert_eq!(summary["packets_lost"], dropped, "{summary}");
            if is_close(&summary) {
                break;
            }
            assert!(attempt < 3, "{summary}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn types_we_do_not_know_come_back_marked() {
    let Some(program) = program() else { return };
    let far = reflector("::1", Mode::Open);
    let options = ["--location", "--follow-up-telemetry", "--cos"].map(String::from);
    let summary = send(&program, far.address(), 50, &options).await;
    assert_eq!(summary["packets_received"], 50, "{summary}");
    let flags = &summary["measurements"]["tlv_validation"]["flags"];
    assert_eq!((&flags["unrecognized"], &flags["malformed"]), (&100.into(), &0.into()), "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_chains_are_answered_in_their_length() {
    let Some(program) = program() else { return };
    let far = reflector("127.0.0.1", Mode::Open);
    let options = ["--malformed", "bad-length", "--extra-padding", "40"].map(String::from);
    let summary = send(&program, far.address(), 50, &options).await;
    println!("{summary}");
    assert_eq!(summary["packets_received"], 50, "{summary}");
    assert_eq!(far.counts().answered, 50);
}
