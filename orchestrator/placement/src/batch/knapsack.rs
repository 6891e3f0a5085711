//! One pool's best jobs.

use std::cmp::Reverse;

/// A job that would take the pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item {
    pub job: u32,
    pub offer: u32,
    /// Positive.
    pub weight: i64,
    /// Positive.
    pub gain: i64,
}

/// The knapsack over them; kept between fillings so that nothing is allocated anew.
#[derive(Debug, Default)]
pub(crate) struct Bag {
    items: Vec<Item>,
    /// By room: the largest gain so far.
    value: Vec<i128>,
    /// By item and room: whether the item is in the best filling.
    take: Vec<bool>,
    picked: Vec<usize>,
}

/// Above this many pairs of item and room the knapsack is only bounded.
const EXACT: usize = 1 << 18;

impl Bag {
    pub fn clear(&mut self) {
        self.items.clear();
        self.take.clear();
        self.picked.clear();
    }

    pub fn add(&mut self, item: Item) {
        self.items.push(item);
    }

    /// The largest gain of items that weigh at most `capacity`; of a very large bag no less than that.
    pub fn fill(&mut self, capacity: i64) -> i128 {
        let weight: i128 = self.items.iter().map(|i| i128::from(i.weight)).sum();
        if weight <= i128::from(capacity) {
            self.picked.extend(0..self.items.len());
            return self.items.iter().map(|i| i128::from(i.gain)).sum();
        }
        match usize::try_from(capacity).ok().and_then(|c| c.checked_add(1)) {
            Some(width) if width.saturating_mul(self.items.len()) <= EXACT => self.exact(width),
            _ => self.divided(capacity),
        }
    }

    fn exact(&mut self, width: usize) -> i128 {
        self.value.clear();
        self.value.resize(width, 0);
        self.take.resize(width * self.items.len(), false);
        for (i, item) in self.items.iter().enumerate() {
            let weight = item.weight as usize;
            for room in (weight..width).rev() {
                let with = self.value[room - weight] + i128::from(item.gain);
                if with > self.value[room] {
                    self.value[room] = with;
                    self.take[i * width + room] = true;
                }
            }
        }
        let mut room = width - 1;
        for i in (0..self.items.len()).rev() {
            if self.take[i * width + room] {
                self.picked.push(i);
                room -= self.items[i].weight as usize;
            }
        }
        self.value[width - 1]
    }

    /// As if the first item that does not fit could be divided (Dantzig 1957).
    fn divided(&mut self, capacity: i64) -> i128 {
        let mut best: Vec<usize> = (0..self.items.len()).collect();
        best.sort_by(|a, b| {
            let (a, b) = (self.items[*a], self.items[*b]);
            let by_weight = |i: Item, other: Item| i128::from(i.gain) * i128::from(other.weight);
            by_weight(b, a).cmp(&by_weight(a, b)).then((a.job, Reverse(a.offer)).cmp(&(b.job, Reverse(b.offer))))
        });
        let (mut room, mut gain) = (capacity, 0_i128);
        for i in best {
            let item = self.items[i];
            if item.weight > room {
                let part = i128::from(item.gain) * i128::from(room);
                return gain + (part + i128::from(item.weight) - 1) / i128::from(item.weight);
            }
            room -= item.weight;
            gain += i128::from(item.gain);
            self.picked.push(i);
        }
        gain
    }

    /// Elementary operations of the last filling.
    pub fn work(&self) -> u64 {
        (self.items.len() + self.take.len()) as u64
    }

    pub fn chosen(&self) -> impl Iterator<Item = &Item> {
        self.picked.iter().map(|i| &self.items[*i])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bag(items: &[(i64, i64)]) -> Bag {
        let mut bag = Bag::default();
        for (i, (weight, gain)) in items.iter().enumerate() {
            bag.add(Item { job: i as u32, offer: 0, weight: *weight, gain: *gain });
        }
        bag
    }

    proptest! {
        #[test]
        fn a_filling_is_the_best_of_all_subsets(items in proptest::collection::vec((1..9_i64, 1..50_i64), 0..9), capacity in 0..25_i64) {
            let most = (0..1_u32 << items.len())
                .map(|set| items.iter().enumerate().filter(move |(i, _)| set >> i & 1 == 1).map(|(_, item)| *item))
                .filter(|subset| subset.clone().map(|i| i.0).sum::<i64>() <= capacity)
                .map(|subset| subset.map(|i| i.1).sum::<i64>())
                .max()
                .unwrap_or(0);
            let mut exact = bag(&items);
            prop_assert_eq!(exact.fill(capacity), i128::from(most));
            prop_assert_eq!(exact.chosen().map(|i| i.gain).sum::<i64>(), most);
            prop_assert!(exact.chosen().map(|i| i.weight).sum::<i64>() <= capacity);
            let mut divided = bag(&items);
            prop_assert!(divided.divided(capacity) >= i128::from(most));
            prop_assert!(divided.chosen().map(|i| i.weight).sum::<i64>() <= capacity);
        }
    }
}
