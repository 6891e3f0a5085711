//! Min-cost flow on the network's links: successive cheapest augmenting paths, exact in whole kbit/s.

use crate::network::{Direction, Network};
use std::{cmp::Reverse, collections::BinaryHeap};

/// What a flow may use.
pub(super) struct Pipes<'a> {
    pub net: &'a Network,
    /// kbit/s by edge; 0: not at all.
    pub room: &'a [u64],
    /// Price of one kbit/s on an edge.
    pub price: &'a dyn Fn(u32) -> i64,
}

/// A path and the rate on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stream {
    pub edges: Vec<u32>,
    pub kbps: u64,
}

/// Sends `kbps` from any of `sources` to `sink` at the least price, as paths without loops, all beginning at one source.
/// `None`: the links do not carry it.
pub(super) fn cheapest(pipes: &Pipes, sources: &[u32], sink: u32, kbps: u64) -> Option<(i128, Vec<Stream>)> {
    let each = sources.iter().filter_map(|s| from_one(pipes, *s, sink, kbps));
    each.min_by_key(|(cost, streams)| (*cost, streams.iter().map(|s| s.edges.len()).sum::<usize>()))
}

fn from_one(pipes: &Pipes, source: u32, sink: u32, kbps: u64) -> Option<(i128, Vec<Stream>)> {
    let net = pipes.net;
    let points = net.points();
    let mut flow = vec![0_u64; net.edges.len()];
    // with potentials every reduced price stays at least zero, so that Dijkstra may be used throughout
    let mut potential = vec![0_i128; points];
    let mut left = kbps;
    while left > 0 {
        let mut best: Vec<Option<i128>> = vec![None; points];
        let mut came: Vec<Option<(u32, bool)>> = vec![None; points];
        let mut heap = BinaryHeap::new();
        best[source as usize] = Some(0);
        heap.push(Reverse((0_i128, source)));
        while let Some(Reverse((distance, point))) = heap.pop() {
            if best[point as usize] != Some(distance) {
                continue;
            }
            let forth = net.on_from(point, Direction::Along).iter().map(|e| (*e, true));
            let back = net.on_from(point, Direction::Against).iter().map(|e| (*e, false));
            for (edge, ahead) in forth.chain(back) {
                let i = edge as usize;
                let open = if ahead { pipes.room[i] > flow[i] } else { flow[i] > 0 };
                if !open {
                    continue;
                }
                let next = if ahead { net.edges[i].to } else { net.edges[i].from } as usize;
                let price = i128::from((pipes.price)(edge)) * if ahead { 1 } else { -1 };
                let reduced = distance + price + potential[point as usize] - potential[next];
                if best[next].is_none_or(|b| reduced < b) {
                    best[next] = Some(reduced);
                    came[next] = Some((edge, ahead));
                    heap.push(Reverse((reduced, next as u32)));
                }
            }
        }
        let far = best[sink as usize]?;
        for (p, b) in potential.iter_mut().zip(&best) {
            *p += b.map_or(far, |b| b.min(far));
        }
        let mut way = Vec::new();
        let mut at = sink;
        while at != source {
            let (edge, ahead) = came[at as usize]?;
            way.push((edge, ahead));
            at = if ahead { net.edges[edge as usize].from } else { net.edges[edge as usize].to };
        }
        let room = way.iter().map(|(e, ahead)| {
            let i = *e as usize;
            if *ahead { pipes.room[i] - flow[i] } else { flow[i] }
        });
        let amount = room.min().unwrap_or(0).min(left);
        for (edge, ahead) in way {
            let of = &mut flow[edge as usize];
            *of = if ahead { *of + amount } else { *of - amount };
        }
        left -= amount;
    }
    let cost = flow.iter().enumerate().map(|(e, f)| i128::from(*f) * i128::from((pipes.price)(e as u32))).sum();
    Some((cost, streams(pipes, flow, source, sink)))
}

/// Takes a flow apart into paths, quickest links first; circles, which cost nothing, fall away.
fn streams(pipes: &Pipes, mut flow: Vec<u64>, source: u32, sink: u32) -> Vec<Stream> {
    let net = pipes.net;
    let mut streams: Vec<Stream> = Vec::new();
    if source == sink {
        return streams;
    }
    loop {
        let mut best: Vec<Option<u64>> = vec![None; net.points()];
        let mut came: Vec<Option<u32>> = vec![None; net.points()];
        let mut heap = BinaryHeap::from([Reverse((0_u64, source))]);
        best[source as usize] = Some(0);
        while let Some(Reverse((latency, point))) = heap.pop() {
            if best[point as usize] != Some(latency) {
                continue;
            }
            for edge in net.on_from(point, Direction::Along).iter().filter(|e| flow[**e as usize] > 0) {
                let to = net.edges[*edge as usize].to as usize;
                let next = latency.saturating_add(net.edges[*edge as usize].latency);
                if best[to].is_none_or(|b| next < b) {
                    best[to] = Some(next);
                    came[to] = Some(*edge);
                    heap.push(Reverse((next, to as u32)));
                }
            }
        }
        let mut edges = Vec::new();
        let mut at = sink;
        while let Some(edge) = came[at as usize].filter(|_| at != source) {
            edges.push(edge);
            at = net.edges[edge as usize].from;
        }
        if edges.is_empty() {
            break;
        }
        edges.reverse();
        let kbps = edges.iter().map(|e| flow[*e as usize]).min().unwrap_or(0);
        for edge in &edges {
            flow[*edge as usize] -= kbps;
        }
        streams.push(Stream { edges, kbps });
    }
    streams
}
