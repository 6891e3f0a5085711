//! How quickly, and how widely, every point reaches a set of points under a choice of rules: one pass for all sites.

use crate::{
    network::{Direction, Network},
    problem::{Problem, Relax, Stream},
};
use std::{
    cell::{OnceCell, RefCell},
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    rc::Rc,
};

/// No way leads there.
pub(crate) const FAR: u64 = u64::MAX;

/// Which rules on paths are in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools)] // each names one rule, and any set of them may be in force
pub(crate) struct Rules {
    pub jurisdiction: bool,
    pub latency: bool,
    pub bandwidth: bool,
    pub encryption: bool,
    pub fresh: bool,
}

impl Rules {
    pub const ALL: Self = Self { jurisdiction: true, latency: true, bandwidth: true, encryption: true, fresh: true };
    pub const NONE: Self =
        Self { jurisdiction: false, latency: false, bandwidth: false, encryption: false, fresh: false };

    pub fn of(relax: Relax) -> Self {
        Self {
            jurisdiction: !relax.path_jurisdiction,
            latency: !relax.latency,
            bandwidth: !relax.bandwidth,
            encryption: !relax.encryption,
            fresh: !relax.stale,
        }
    }
}

/// Marks of a link: rules that it breaks.
const OUTSIDE: u8 = 1;
const PLAIN: u8 = 2;
const OLD: u8 = 4;

/// A question: marks that bar a link, class of free capacity, roots, walk.
type Key = (u8, u64, Rc<[u32]>, Direction);

/// The same without a class.
type WideKey = (u8, Rc<[u32]>, Direction);

/// Tables of one network under one order's rules, each worked out once.
pub(crate) struct Reach<'n> {
    net: &'n Network,
    /// By edge ordinal.
    marks: Vec<u8>,
    /// Marks that some link bears.
    borne: u8,
    quickest: RefCell<HashMap<Key, Rc<[u64]>>>,
    widest: RefCell<HashMap<WideKey, Rc<[u64]>>>,
    scratch: OnceCell<RefCell<Heap>>,
}

type Heap = BinaryHeap<Reverse<(u64, u32)>>;

impl<'n> Reach<'n> {
    /// `problem` says which jurisdictions count; its own relaxations do not matter here.
    pub fn new(problem: &Problem<'n>) -> Self {
        let (view, net) = (problem.view, problem.net);
        let within = &problem.request.order.constraints.jurisdictions;
        let bound = !within.is_empty();
        let point_in =
            |p: &rhumb_federation::view::ViewPoint| p.jurisdiction.as_ref().is_some_and(|j| within.contains(j));
        let points: Vec<bool> = view.graph.node_weights().map(|p| !bound || point_in(p)).collect();
        let mark = |edge: u32| {
            let (link, e) = (problem.link(edge), &net.edges[edge as usize]);
            let inside = !bound
                || (points[e.from as usize]
                    && points[e.to as usize]
                    && !link.jurisdictions.is_empty()
                    && link.jurisdictions.is_subset(within));
            let (plain, old) = (!problem.is_encrypted(edge), problem.is_stale(edge));
            u8::from(!inside) * OUTSIDE + u8::from(plain) * PLAIN + u8::from(old) * OLD
        };
        let marks: Vec<u8> = (0..net.edges.len() as u32).map(mark).collect();
        let borne = marks.iter().fold(0, |all, m| all | m);
        Self { net, marks, borne, quickest: RefCell::default(), widest: RefCell::default(), scratch: OnceCell::new() }
    }

    /// Marks of a link that bar it from a stream under the rules; 0: none does.
    pub fn bars(&self, stream: &Stream, rules: Rules, edge: u32) -> u8 {
        self.marks[edge as usize] & self.barred(stream, rules)
    }

    /// Whether any link's figures are too old.
    pub fn any_old(&self) -> bool {
        self.borne & OLD != 0
    }

    fn barred(&self, stream: &Stream, rules: Rules) -> u8 {
        let on = |rule: bool, mark: u8| if rule { mark } else { 0 };
        let marks =
            on(rules.jurisdiction, OUTSIDE) | on(rules.encryption && stream.encrypted, PLAIN) | on(rules.fresh, OLD);
        marks & self.borne
    }

    /// Microseconds that a stream at `kbps` takes from every point to the nearest of `roots`, walking so.
    pub fn quickest(&self, stream: &Stream, rules: Rules, kbps: u64, roots: &Rc<[u32]>, walk: Direction) -> Rc<[u64]> {
        let class = if rules.bandwidth { self.net.class(stream.on_one_path(kbps)).unwrap_or(FAR) } else { 0 };
        let key = (self.barred(stream, rules), class, Rc::clone(roots), walk);
        if let Some(known) = self.quickest.borrow().get(&key) {
            return Rc::clone(known);
        }
        let table: Rc<[u64]> = self.distances(key.0, class, roots, walk).into();
        self.quickest.borrow_mut().insert(key, Rc::clone(&table));
        table
    }

    fn distances(&self, barred: u8, class: u64, roots: &[u32], walk: Direction) -> Vec<u64> {
        let mut best = vec![FAR; self.net.points()];
        let heap = self.scratch.get_or_init(RefCell::default);
        let mut heap = heap.borrow_mut();
        heap.clear();
        for root in roots {
            best[*root as usize] = 0;
            heap.push(Reverse((0, *root)));
        }
        let back = walk.reverse();
        while let Some(Reverse((distance, point))) = heap.pop() {
            if best[point as usize] != distance {
                continue;
            }
            for &edge in self.net.on_from(point, back) {
                let e = &self.net.edges[edge as usize];
                if self.marks[edge as usize] & barred != 0 || e.free < class {
                    continue;
                }
                let next = self.net.end(edge, back);
                let d = distance.saturating_add(e.latency);
                if d < best[next as usize] {
                    best[next as usize] = d;
                    heap.push(Reverse((d, next)));
                }
            }
        }
        best
    }

    /// Free kbit/s of the widest path from every point to `roots`, however long; `FAR` at a root, 0 where none leads.
    pub fn widest(&self, stream: &Stream, rules: Rules, roots: &Rc<[u32]>, walk: Direction) -> Rc<[u64]> {
        let key = (self.barred(stream, rules), Rc::clone(roots), walk);
        if let Some(known) = self.widest.borrow().get(&key) {
            return Rc::clone(known);
        }
        let mut best = vec![0; self.net.points()];
        let mut heap = BinaryHeap::new();
        for root in roots.iter() {
            best[*root as usize] = FAR;
            heap.push((FAR, *root));
        }
        let back = walk.reverse();
        while let Some((width, point)) = heap.pop() {
            if best[point as usize] != width {
                continue;
            }
            for &edge in self.net.on_from(point, back) {
                let e = &self.net.edges[edge as usize];
                let next = self.net.end(edge, back);
                let w = width.min(e.free);
                if self.marks[edge as usize] & key.0 == 0 && w > best[next as usize] {
                    best[next as usize] = w;
                    heap.push((w, next));
                }
            }
        }
        let table: Rc<[u64]> = best.into();
        self.widest.borrow_mut().insert(key, Rc::clone(&table));
        table
    }

    /// Of each of `points`, microseconds to the nearest other of them.
    pub fn nearest_other(&self, stream: &Stream, rules: Rules, kbps: u64, points: &[u32], walk: Direction) -> Vec<u64> {
        let class = if rules.bandwidth { self.net.class(stream.on_one_path(kbps)).unwrap_or(FAR) } else { 0 };
        let barred = self.barred(stream, rules);
        // each point is reached from its two nearest roots: of a root, the second is another
        let none = (FAR, u32::MAX);
        let mut best = vec![[none; 2]; self.net.points()];
        let mut heap: BinaryHeap<Reverse<(u64, u32, u32)>> = points.iter().map(|p| Reverse((0, *p, *p))).collect();
        let back = walk.reverse();
        while let Some(Reverse((distance, point, root))) = heap.pop() {
            let known = &mut best[point as usize];
            if known[0].1 == u32::MAX {
                known[0] = (distance, root);
            } else if known[0].1 != root && known[1].1 == u32::MAX {
                known[1] = (distance, root);
            } else {
                continue;
            }
            for &edge in self.net.on_from(point, back) {
                let e = &self.net.edges[edge as usize];
                let next = self.net.end(edge, back);
                let there = &best[next as usize];
                let new = there[0].1 != root && there[1].1 == u32::MAX;
                if new && self.marks[edge as usize] & barred == 0 && e.free >= class {
                    heap.push(Reverse((distance.saturating_add(e.latency), next, root)));
                }
            }
        }
        points.iter().map(|p| best[*p as usize][1].0).collect()
    }
}
