//! Numbers of tunnels, and the pool they are taken from.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt};

/// A VXLAN network identifier (RFC 7348): 1 to 2^24 - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Vni(u32);

/// Routing tables of tunnels: far above what people number by hand.
const TABLES: u32 = 1_000_000_000;

impl Vni {
    const MOST: u32 = (1 << 24) - 1;

    pub fn new(number: u32) -> Result<Self, PoolError> {
        if (1..=Self::MOST).contains(&number) { Ok(Self(number)) } else { Err(PoolError::Number { number }) }
    }

    pub const fn number(self) -> u32 {
        self.0
    }

    /// Name of its link: at most ten letters of the fifteen that a link may have.
    pub fn link(self) -> String {
        format!("rh{}", self.0)
    }

    /// Its own routing table.
    pub const fn table(self) -> u32 {
        TABLES + self.0
    }

    /// Whose table that is.
    pub fn of_table(table: u32) -> Option<Self> {
        Self::new(table.checked_sub(TABLES)?).ok()
    }

    /// Whose link bears that name.
    pub fn of_link(name: &str) -> Option<Self> {
        Self::new(name.strip_prefix("rh")?.parse().ok()?).ok()
    }
}

impl TryFrom<u32> for Vni {
    type Error = PoolError;
    fn try_from(number: u32) -> Result<Self, PoolError> {
        Self::new(number)
    }
}

impl From<Vni> for u32 {
    fn from(vni: Vni) -> u32 {
        vni.0
    }
}

impl fmt::Display for Vni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why no number is given, or none taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    #[error("{number} is no tunnel number; use 1 to 16777215")]
    Number { number: u32 },
    #[error("the pool of tunnel numbers {from} to {to} is exhausted: all {held} are held; wait for an order to end or widen the pool", held = to - from + 1)]
    Exhausted { from: u32, to: u32 },
    #[error("the pool of tunnel numbers runs from {from} down to {to}; write the smaller number first")]
    Empty { from: u32, to: u32 },
    #[error("tunnel number {vni} lies outside of this point's pool {from} to {to}")]
    Outside { vni: Vni, from: u32, to: u32 },
}

/// A range of tunnel numbers, and which of them are held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VniPool {
    range: VniRange,
    held: BTreeSet<Vni>,
}

/// Both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VniRange {
    pub from: Vni,
    pub to: Vni,
}

impl VniRange {
    pub fn new(from: u32, to: u32) -> Result<Self, PoolError> {
        let (low, high) = (Vni::new(from)?, Vni::new(to)?);
        if low > high { Err(PoolError::Empty { from, to }) } else { Ok(Self { from: low, to: high }) }
    }

    pub fn admit(&self, vni: Vni) -> Result<(), PoolError> {
        let (from, to) = (self.from.0, self.to.0);
        if (self.from..=self.to).contains(&vni) { Ok(()) } else { Err(PoolError::Outside { vni, from, to }) }
    }
}

impl VniPool {
    pub fn new(range: VniRange) -> Self {
        Self { range, held: BTreeSet::new() }
    }

    /// The lowest number that is not held.
    pub fn allocate(&mut self) -> Result<Vni, PoolError> {
        let mut next = self.range.from.0;
        for held in &self.held {
            if held.0 > next {
                break;
            }
            next = held.0 + 1;
        }
        if next > self.range.to.0 {
            return Err(PoolError::Exhausted { from: self.range.from.0, to: self.range.to.0 });
        }
        let vni = Vni(next);
        self.held.insert(vni);
        Ok(vni)
    }

    /// Takes a number that somebody else chose; whether it was free.
    pub fn hold(&mut self, vni: Vni) -> Result<bool, PoolError> {
        self.range.admit(vni)?;
        Ok(self.held.insert(vni))
    }

    /// Gives a number back; whether it was held.
    pub fn release(&mut self, vni: Vni) -> bool {
        self.held.remove(&vni)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::{Arc, Mutex};

    fn pool(from: u32, to: u32) -> VniPool {
        VniPool::new(VniRange::new(from, to).unwrap())
    }

    #[test]
    fn twenty_at_once_get_sixteen_distinct_numbers_and_four_reasons() {
        let pool = Arc::new(Mutex::new(pool(5_001, 5_016)));
        let threads: Vec<_> = (0..20)
            .map(|_| {
                let pool = Arc::clone(&pool);
                std::thread::spawn(move || pool.lock().unwrap().allocate())
            })
            .collect();
        let answers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let given: BTreeSet<Vni> = answers.iter().flatten().copied().collect();
        assert_eq!((given.len(), answers.iter().flatten().count()), (16, 16));
        let reasons: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
        assert_eq!(reasons.len(), 4);
        assert!(reasons[0].to_string().starts_with("the pool of tunnel numbers 5001 to 5016 is exhausted"));
        let mut pool = pool.lock().unwrap();
        let back = Vni::new(5_009).unwrap();
        assert!(pool.release(back) && !pool.release(back), "once and only once");
        assert_eq!(pool.allocate(), Ok(back));
        assert!(pool.allocate().is_err());
    }

    #[test]
    fn numbers_name_their_links_and_tables() {
        let vni = Vni::new(1_001).unwrap();
        assert_eq!((vni.link().as_str(), vni.table()), ("rh1001", 1_000_001_001));
        assert_eq!((Vni::of_link("rh1001"), Vni::of_table(1_000_001_001)), (Some(vni), Some(vni)));
        assert_eq!((Vni::of_link("eth0"), Vni::of_table(254)), (None, None));
        assert!(Vni::new(0).is_err() && Vni::new(1 << 24).is_err());
    }

    proptest! {
        #[test]
        fn what_is_held_is_never_given(asked in proptest::collection::vec(0_u32..3, 1..200)) {
            let mut pool = pool(10, 19);
            let mut mine = Vec::new();
            for (turn, what) in asked.into_iter().enumerate() {
                match what {
                    0 | 1 => if let Ok(vni) = pool.allocate() {
                        prop_assert!(!mine.contains(&vni));
                        mine.push(vni);
                    } else {
                        prop_assert_eq!(mine.len(), 10);
                    },
                    _ if mine.is_empty() => {}
                    _ => { let at = turn % mine.len(); prop_assert!(pool.release(mine.swap_remove(at))); }
                }
            }
        }
    }
}
