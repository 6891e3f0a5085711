use crate::{bench::Bench, fixture::*};
use rhumb_model::{Bandwidth, OrderId};
use rhumb_store::{Conflict, Intent, LinkWindow, PointRecord, Store as _, WindowRtt, record::LogRecord};
use uuid::Uuid;

pub async fn reports_must_be_newer(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![]).await;
    let (first, second) = (Uuid::from_u128(7), Uuid::from_u128(3));
    let heard = |boot, seq| Intent::Heard { point: site("alpha"), boot, seq, at: at(seq as i64) };
    done(store, heard(first, 1)).await;
    done(store, heard(first, 5)).await;
    for seq in [1, 5] {
        assert_eq!(refused(store, heard(first, seq)).await, Conflict::OldReport);
    }
    done(store, heard(second, 0)).await;
    // a report of the former boot comes late
    assert_eq!(refused(store, heard(first, 6)).await, Conflict::OldReport);
    done(store, heard(second, 1)).await;
    let points = store.points().await.unwrap();
    let expected = PointRecord { boot: Some(second), seq: 1, heard: Some(at(1)), ..point("alpha") };
    assert_eq!(points, [expected, point("beta")]);
    let unknown = Intent::Heard { point: site("x"), boot: first, seq: 1, at: at(0) };
    assert_eq!(refused(store, unknown).await, Conflict::Missing("point x".to_owned()));
}

pub async fn capacity_is_not_cut_below_what_is_reserved(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![]).await;
    let record = accepted(store, "a").await;
    granted(store, reserve(&record, 1, on_link("ab", 400_000))).await;
    let configure = |mbps| Intent::Configure { points: vec![], links: vec![(link("ab"), Bandwidth::from_mbps(mbps))] };
    let expected =
        Conflict::Link { link: link("ab"), free: Bandwidth::from_mbps(399), needed: Bandwidth::from_mbps(400) };
    assert_eq!(refused(store, configure(399)).await, expected);
    done(store, configure(400)).await;
    let (_, reserved, capacity) = store.holdings().await.unwrap().reserved.remove(0);
    assert_eq!((reserved, capacity), (Bandwidth::from_mbps(400), Bandwidth::from_mbps(400)));
}

fn chunk(order: OrderId, replica: u32, offset: u64, text: &str) -> LogRecord {
    let component = rhumb_model::ComponentName::new("trainer").unwrap();
    LogRecord { order, generation: 1, component, replica, offset, text: text.to_owned() }
}

pub async fn logs_are_kept_once_and_bounded(bench: &Bench) {
    let store = &bench.store;
    let record = accepted(store, "a").await;
    let append = async |chunks: Vec<LogRecord>| done(store, Intent::AppendLogs(chunks)).await;
    let text = async |after, limit| -> String {
        store.logs(record.id, after, limit).await.unwrap().into_iter().map(|c| c.text).collect()
    };
    append(vec![chunk(record.id, 0, 0, "hello "), chunk(record.id, 1, 0, "other ")]).await;
    // again, and overlapping what is there; an order that nobody knows does no harm
    append(vec![chunk(new_id(), 0, 0, "lost"), chunk(record.id, 0, 0, "hello "), chunk(record.id, 0, 3, "lo world")])
        .await;
    assert_eq!(text(0, 1_000).await, "hello other world");
    assert_eq!(text(8, 1_000).await, "her world");
    assert_eq!(text(0, 8).await, "hello ", "whole chunks within the limit");
    assert_eq!(text(17, 1_000).await, "");
    let tail = store.logs(record.id, 14, 1_000).await.unwrap();
    assert_eq!((tail[0].offset, tail[0].text.as_str(), tail[0].replica), (8, "rld", 0));

    append(vec![chunk(record.id, 0, 11, "数\0据")]).await;
    assert_eq!(text(17, 1_000).await, "数\u{1a}据");
    let big = "x".repeat(3 << 20);
    append(vec![chunk(record.id, 2, 0, &big), chunk(record.id, 3, 0, &big), chunk(record.id, 4, 0, "more")]).await;
    append(vec![chunk(record.id, 5, 0, "and more")]).await;
    let mut all = String::new();
    loop {
        let more = text(all.len() as u64, 1 << 20).await;
        if more.is_empty() {
            break;
        }
        all.push_str(&more);
    }
    let notice = "\n[the rest of this log is not kept: 4 MiB per order are]\n";
    assert_eq!(all.len(), (4 << 20) + notice.len());
    assert!(all.ends_with(notice) && !all.contains("more"));
}

pub async fn windows_of_links_are_kept_once_and_for_a_time(bench: &Bench) {
    let store = &bench.store;
    world(store, vec![]).await;
    let us = rhumb_model::Latency::from_micros;
    let window = |name: &str, second: i64, rtt: Option<u64>| LinkWindow {
        link: link(name),
        at: at(second),
        length: rhumb_model::Span::from_micros(60_000_000),
        sent: 300,
        received: rtt.map_or(0, |_| 299),
        rtt: rtt.map(|rtt| WindowRtt { min: us(rtt), p50: us(rtt + 1), p95: us(rtt + 2), p99: us(rtt + 3) }),
        loss: rtt.map(|_| rhumb_model::Ppm::from_ppm(3_333)),
        record: format!("{{\"sent\":{second}}}"),
    };
    let kept = vec![window("ab", 60, Some(10)), window("ab", 120, None), window("ab", 180, Some(30))];
    // one of a link that is configured no more is left out, and the others are kept all the same
    let told = kept.iter().cloned().chain([window("gone", 60, Some(1)), window("ba", 60, Some(2))]).collect();
    done(store, Intent::KeepWindows(told)).await;
    done(store, Intent::KeepWindows(vec![window("ab", 60, Some(99))])).await;
    assert_eq!(store.link_windows(&link("ab"), at(0), at(1_000)).await.unwrap(), kept);
    assert_eq!(store.link_windows(&link("ab"), at(60), at(120)).await.unwrap(), kept[1..2]);
    assert_eq!(store.link_windows(&link("gone"), at(0), at(1_000)).await.unwrap(), []);
    done(store, Intent::ForgetWindows { before: at(120) }).await;
    assert_eq!(store.link_windows(&link("ab"), at(0), at(1_000)).await.unwrap(), kept[1..]);
    done(store, Intent::KeepWindows(Vec::new())).await;
}
