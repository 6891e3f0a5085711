//! Which way a control channel takes: the path of least delay over the links that are not cut.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// One directed link as the search sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop<'a> {
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    pub(crate) latency_us: u64,
}

/// Delay of the cheapest path from `start` to `end` in microseconds; `None` if there is none.
pub(crate) fn least_latency_us(hops: &[Hop<'_>], start: &str, end: &str) -> Option<u64> {
    let mut settled = BTreeMap::new();
    let mut open = BinaryHeap::from([Reverse((0_u64, start))]);
    while let Some(Reverse((latency_us, point))) = open.pop() {
        if point == end {
            return Some(latency_us);
        }
        if settled.insert(point, latency_us).is_some() {
            continue;
        }
        let onward = hops.iter().filter(|hop| hop.from == point && !settled.contains_key(hop.to));
        open.extend(onward.map(|hop| Reverse((latency_us + hop.latency_us, hop.to))));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop<'a>(from: &'a str, to: &'a str, latency_us: u64) -> Hop<'a> {
        Hop { from, to, latency_us }
    }

    #[test]
    fn the_detour_wins_when_it_is_quicker() {
        let hops = [hop("a", "b", 30), hop("a", "c", 10), hop("c", "b", 15), hop("b", "a", 1)];
        assert_eq!(least_latency_us(&hops, "a", "b"), Some(25));
        assert_eq!(least_latency_us(&hops, "b", "c"), Some(11));
        assert_eq!(least_latency_us(&hops, "c", "d"), None);
        assert_eq!(least_latency_us(&[], "a", "a"), Some(0));
    }
}
