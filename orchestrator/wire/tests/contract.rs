//! What travels reads back as it was, and a peer of the next version is understood.

#![allow(clippy::unwrap_used)] // helpers of tests may fail the test

use rhumb_model::{Bandwidth, BandwidthMethod, Confidence};
use rhumb_wire::{
    Assignment, AssignmentGoal, AssignmentState, AssignmentStatus, BandwidthFigures, Desired, DeviceFigures,
    DevicePart, Duty, Fares, FlowEndpoint, InputFile, InventoryUpdate, KernelRoute, LinkFigures, LogChunk, NodeChanges,
    NodeReport, OutputFile, PROTOCOL, PairFigures, PairTarget, Pass, PathChange, PeerLink, PortReport, ProbeTarget,
    Report, Role, Route, RouteEndState, RouteFigures, RoutePurpose, RouteStatus, RunTerms, RunVariant, Service,
    SyncReply, TestedRate, TrainHeard, Tunnel, TunnelNumbers, WindowFigures,
    report::{AssignmentKey, HeldDataset, LogAck, RouteKey},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

fn order() -> rhumb_model::OrderId {
    rhumb_model::OrderId(Uuid::from_u128(7))
}

fn kernel() -> KernelRoute {
    let tunnel = Tunnel {
        number: 1_001,
        local: "fd00:a::3e9".parse().unwrap(),
        remote: "fd00:b::3e9".parse().unwrap(),
        own: "10.200.0.0".parse().unwrap(),
        peer: "10.200.0.1".parse().unwrap(),
        segments: vec!["fd00:e::e".parse().unwrap()],
    };
    KernelRoute {
        previous: None,
        source: tunnel.own,
        sink: tunnel.peer,
        next: Some(tunnel),
        peer: Some("b".parse().unwrap()),
        overlay_port: 4_000,
        source_networks: vec!["10.11.0.0/24".parse().unwrap()],
        sink_networks: vec!["10.12.0.0/24".parse().unwrap()],
        allow: Some(vec![Pass {
            from: "10.11.0.0/24".parse().unwrap(),
            to: "10.12.0.0/24".parse().unwrap(),
            service: Service::Tcp { port: 80 },
        }]),
        mtu: Some(1_380),
        dscp: 46,
    }
}

fn run_key() -> AssignmentKey {
    AssignmentKey { order: order(), generation: 3, component: "trainer".parse().unwrap(), replica: 1 }
}

fn leg_key() -> RouteKey {
    RouteKey { order: order(), generation: 3, leg: 2, path: 1 }
}

fn desired() -> Desired {
    let assignment = Assignment {
        key: run_key(),
        goal: AssignmentGoal::Run,
        node: "n1".parse().unwrap(),
        devices: vec![0, 3],
        part: Some(DevicePart::Share { thousandths: 250, memory_bytes: Some(9) }),
        cpu: serde_json::from_value(json!(1.5)).unwrap(),
        memory: "4GiB".parse().unwrap(),
        command: vec!["python".into(), "train.py".into()],
        env: BTreeMap::from([("EPOCHS".into(), "3".into())]),
        inputs: vec![InputFile { dataset: "corpus".into(), leg: Some(2), bytes: 9, offset: 4 }],
        outputs: vec![OutputFile { dataset: "model".into(), leg: None, bytes: 5 }],
        endpoints: vec![FlowEndpoint { flow: 1, legs: vec![2], role: Role::Source }],
        lease_ms: Some(60_000),
        grace_ms: 2_000,
        checkpoint_signal: Some("SIGUSR1".into()),
        traceparent: Some("00-1-2-01".into()),
        terms: RunTerms {
            gang: true,
            image: Some("registry.example/train:1".into()),
            variants: BTreeMap::from([("ascend".into(), RunVariant { command: vec!["python3".into()], image: None })]),
            restart_from: Some("step-400".into()),
        },
    };
    let transfer = RoutePurpose::Transfer { dataset: "corpus".into(), offset: 4, bytes: 9, write: false, start: true };
    let route = |role, purpose| Route {
        key: leg_key(),
        role,
        next_link: Some("c-a".parse().unwrap()),
        previous: None,
        rate: "20Mbps".parse().unwrap(),
        purpose,
        key_base64: Some("seal".into()),
        hop_secret_base64: None,
        duty: Duty::Standby,
        silence_ms: Some(800),
        kernel: Some(kernel()),
    };
    Desired {
        epoch: 2,
        generation: 40,
        assignments: vec![assignment],
        routes: vec![route(Role::Source, transfer), route(Role::Relay, RoutePurpose::Stream { flow: 1 })],
        probes: vec![ProbeTarget {
            link: "a-b".parse().unwrap(),
            address: "127.0.0.1:862".into(),
            interval_ms: 100,
            capacity: Some("10Gbps".parse().unwrap()),
            trains_every_ms: Some(600_000),
        }],
        pairs: vec![PairTarget { to: "c".parse().unwrap(), address: "127.0.0.1:863".into(), interval_ms: 100 }],
        links: vec![PeerLink { link: "a-b".parse().unwrap(), to: "b".parse().unwrap(), overlay: "127.0.0.1:1".into() }],
        peers: vec!["b".parse().unwrap()],
        probe_key_base64: Some("probe".into()),
    }
}

fn report() -> Report {
    let assignment = AssignmentStatus {
        key: run_key(),
        state: AssignmentState::Exited,
        exit_code: Some(0),
        signal: None,
        ran_us: u64::MAX,
        started_us: Some(-1),
        staged_bytes: 9,
        staged_sha256: vec!["00".into()],
        checkpoint: Some("step-400".into()),
        message: "ended \"well\"\u{0}\n".into(),
    };
    let route = RouteStatus {
        key: leg_key(),
        state: RouteEndState::Degraded,
        bytes: 9,
        bytes_back: 1,
        message: String::new(),
        figures: Some(RouteFigures {
            rtt_us: 7,
            tested: Some(TestedRate { sent: Bandwidth::from_mbps(2), arrived: Bandwidth::from_mbps(1) }),
        }),
        carrying: true,
    };
    let link = LinkFigures {
        link: "a-b".parse().unwrap(),
        window_us: 10_000_000,
        sent: 100,
        received: 0,
        rtt_min_us: None,
        rtt_p50_us: None,
        rtt_p95_us: None,
        loss_forward_ppm: Some(1_000_000),
        loss_backward_ppm: None,
        jitter_us: None,
        last_reply_age_us: Some(5),
        rtt_p99_us: None,
        bandwidths: vec![BandwidthFigures {
            rate_kbps: 99_000,
            available_kbps: Some(60_000),
            method: BandwidthMethod::Trains,
            confidence: Confidence::High,
            label: 7,
            age_us: 5,
        }],
        stale: true,
    };
    let window = WindowFigures {
        link: "a-b".parse().unwrap(),
        start_ms: 5,
        age_ms: 6,
        record: json!([u64::MAX]),
        change: Some(PathChange { min_moved_us: Some((20_000, 40_000)) }),
    };
    let pair = PairFigures {
        to: "c".parse().unwrap(),
        sent: 10,
        received: 9,
        rtt_min_us: Some(1),
        rtt_p50_us: Some(2),
        rtt_p95_us: Some(3),
        last_reply_age_us: Some(4),
    };
    let node = NodeReport {
        name: "n1".parse().unwrap(),
        devices: Vec::new(),
        cpu: serde_json::from_value(json!(96)).unwrap(),
        memory: "1TiB".parse().unwrap(),
        rack: Some("r1".into()),
        nvl_domain: None,
        unknown: Vec::new(),
        ports: vec![PortReport { name: "eth0".into(), rate_kbps: Some(100_000_000), numa: Some(0) }],
    };
    Report {
        protocol: PROTOCOL,
        point: "a".parse().unwrap(),
        boot_id: Uuid::from_u128(9),
        seq: 12,
        epoch: 2,
        generation: 40,
        wait_ms: 5_000,
        probe_port: Some(862),
        overlay_port: None,
        kernel: None,
        nodes: Some(vec![node.clone()]),
        inventory: InventoryUpdate {
            revision: 3,
            changes: Some(NodeChanges { base: 2, nodes: vec![node], gone: vec!["n2".parse().unwrap()] }),
            figures: vec![DeviceFigures {
                node: "n1".parse().unwrap(),
                device: 0,
                fares: Fares { utilisation_pct: Some(7), temperature_mc: Some(-1), ..Fares::default() },
            }],
        },
        assignments: vec![assignment],
        routes: vec![route],
        links: vec![link],
        windows: vec![window],
        pairs: vec![pair],
        trains: vec![TrainHeard { label: 7, rate_kbps: 98_000, age_us: 6 }],
        logs: vec![LogChunk { key: run_key(), offset: 3, bytes: 5, text: "hällo".into() }],
        datasets: vec![HeldDataset { name: "corpus".into(), bytes: 9, sha256: "00".into() }],
        unmanaged: 1,
    }
}

fn reply() -> SyncReply {
    let acks = vec![LogAck { key: run_key(), up_to: 8 }];
    SyncReply { seq: 12, desired: Some(desired()), log_acks: acks, inventory: Some(3), pause_ms: 250 }
}

/// Puts a key that nobody knows into every object, but for maps, where every key is known.
fn extended(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let known = map.into_iter().map(|(key, value)| match key.as_str() {
                "env" | "variants" => (key, value),
                _ => (key, extended(value)),
            });
            known.chain([("of_the_next_version".to_owned(), json!({"some": ["thing"]}))]).collect()
        }
        Value::Array(items) => items.into_iter().map(extended).collect(),
        other => other,
    }
}

fn reads_back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(message: &T) {
    let text = serde_json::to_string(message).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), message);
    let newer = extended(serde_json::to_value(message).unwrap());
    assert!(newer.to_string().matches("of_the_next_version").count() > 5);
    assert_eq!(&serde_json::from_value::<T>(newer).unwrap(), message, "unknown fields are ignored");
}

#[test]
fn every_message_reads_back_and_ignores_what_it_does_not_know() {
    reads_back(&report());
    reads_back(&desired());
    reads_back(&reply());
}

/// An agent or orchestrator of before these fields were added leaves them out.
#[test]
fn fields_that_came_later_may_be_absent() {
    let optional: [(&str, &[&str]); 3] = [
        ("/assignments/0", &["outputs", "checkpoint_signal", "traceparent", "terms"]),
        ("/routes/0", &["key_base64", "hop_secret_base64"]),
        ("/routes/1", &["key_base64", "hop_secret_base64"]),
    ];
    let mut value = serde_json::to_value(desired()).unwrap();
    for (at, keys) in optional {
        let object = value.pointer_mut(at).and_then(Value::as_object_mut).unwrap();
        object.retain(|key, _| !keys.contains(&key.as_str()));
    }
    let read: Desired = serde_json::from_value(value).unwrap();
    let assignment = &read.assignments[0];
    assert_eq!((&assignment.outputs, &assignment.checkpoint_signal, &assignment.traceparent), (&vec![], &None, &None));

    let mut value = serde_json::to_value(report()).unwrap();
    for key in ["probe_port", "overlay_port", "nodes", "logs", "datasets", "unmanaged"] {
        value.as_object_mut().unwrap().remove(key);
    }
    let read: Report = serde_json::from_value(value).unwrap();
    assert_eq!((read.nodes, read.logs.len(), read.datasets.len(), read.unmanaged), (None, 0, 0, 0));
}

#[test]
fn addresses_inside_tunnels_never_meet_and_end_with_their_block() {
    let numbers = TunnelNumbers { from: 5_001, to: 5_016, inside: "10.200.0.0/27".parse().unwrap() };
    let pairs: Vec<_> = (5_000..=5_017).filter_map(|number| numbers.inside(number)).collect();
    assert_eq!(pairs.len(), 16);
    let all: std::collections::BTreeSet<_> = pairs.iter().flat_map(|(low, high)| [*low, *high]).collect();
    assert_eq!(all.len(), 32);
    assert_eq!(pairs[15].1.to_string(), "10.200.0.31");
    let narrow = TunnelNumbers { inside: "10.200.0.0/28".parse().unwrap(), ..numbers };
    assert_eq!((5_001..=5_016).filter_map(|number| narrow.inside(number)).count(), 8);
}

/// The words on the wire: they outlive the names in the code.
#[test]
fn words_of_the_contract_stay() {
    let states = ["leased", "staged", "running", "exited", "stopped", "refused", "lost"];
    let read: Vec<AssignmentState> = states.map(|s| serde_json::from_value(json!(s)).unwrap()).into();
    use AssignmentState as A;
    assert_eq!(read, [A::Leased, A::Staged, A::Running, A::Exited, A::Stopped, A::Refused, A::Lost]);
    assert_eq!(serde_json::to_value(&read).unwrap(), json!(states));
    let ends = json!(["building", "active", "done", "degraded", "failed"]);
    use RouteEndState as R;
    assert_eq!(serde_json::to_value([R::Building, R::Active, R::Done, R::Degraded, R::Failed]).unwrap(), ends);
    let purpose = serde_json::to_value(RoutePurpose::Stream { flow: 4 }).unwrap();
    assert_eq!(purpose, json!({"kind": "stream", "flow": 4}));
    assert_eq!(serde_json::to_value(desired()).unwrap()["routes"][0]["purpose"]["kind"], "transfer");
    assert_eq!(serde_json::to_value(AssignmentGoal::Stop).unwrap(), "stop");
}

#[test]
fn what_is_no_name_or_quantity_is_refused() {
    let good = serde_json::to_value(report()).unwrap();
    for (at, bad) in [
        ("/point", json!("a/../b")),
        ("/point", json!("")),
        ("/seq", json!(-1)),
        ("/seq", json!(1.5)),
        ("/assignments/0/key/component", json!("a b")),
        ("/assignments/0/state", json!("flying")),
        ("/nodes/0/memory", json!(5)),
        ("/nodes/0/cpu", json!(-2)),
    ] {
        let mut value = good.clone();
        *value.pointer_mut(at).unwrap() = bad.clone();
        assert!(serde_json::from_value::<Report>(value).is_err(), "{at} {bad}");
    }
}
