//! How much a loaded arc weighs: 2 to the power of how near it is to the fullest one, in fixed point.
//!
//! With loads x, capacities c and a reference utilisation T, the potential is the sum over arcs of 2^(sharpness (x/cT - 1)).
//! Its minimum approaches the least maximum of x/cT as the sharpness grows (Shahrokhi and Matula 1990; Plotkin, Shmoys and
//! Tardos 1995), its slopes are the lengths whose shortest paths improve it, and those lengths give a lower bound.

use super::Matrix;

/// Fractional bits of a weight. What lies this many powers of two below the fullest arc weighs the least that there is.
const BITS: u32 = 32;
/// A weight never exceeds this, so that sums over long paths and products with a slope factor fit.
const MOST: u64 = 1 << 44;
const STEPS: u32 = 12;

/// 2^-i/4096 with 62 fractional bits.
fn powers() -> Vec<u64> {
    // square roots of halves: exact to the last bit, without a float or a magic table
    let mut table = vec![0_u64; (1 << STEPS) + 1];
    table[0] = 1 << 62;
    table[1 << STEPS] = 1 << 61;
    for level in 0..STEPS {
        let step = 1_usize << (STEPS - level);
        for i in (step / 2..1 << STEPS).step_by(step) {
            let product = u128::from(table[i - step / 2]) * u128::from(table[i + step / 2]);
            table[i] = product.isqrt() as u64;
        }
    }
    table
}

/// Loads of all arcs with their weights.
#[derive(Debug, Clone)]
pub(super) struct Measure {
    powers: std::rc::Rc<[u64]>,
    pub load: Vec<u64>,
    pub capacity: Vec<u64>,
    /// Load divided by what it would be at the reference, in 32 fractional bits, is `load * factor >> shift`.
    factor: Vec<(u64, u32)>,
    /// What a weight is divided by to be a length: capacity over the least capacity, as a factor with 16 fractional bits.
    slope: Vec<u64>,
    sharpness: u64,
}

impl Measure {
    pub fn new(matrix: &Matrix) -> Self {
        let capacity: Vec<u64> = matrix.arcs.iter().map(|a| a.capacity).collect();
        let least = capacity.iter().copied().min().unwrap_or(1);
        let slope = capacity.iter().map(|c| ((u128::from(least) << 16) / u128::from(*c)).max(1) as u64).collect();
        let load = vec![0; capacity.len()];
        Self { powers: powers().into(), load, factor: vec![(0, 0); capacity.len()], capacity, slope, sharpness: 1 }
    }

    /// The fullest arc: load, capacity.
    pub fn fullest(&self) -> (u64, u64) {
        let mut most = (0_u64, 1_u64);
        for (load, capacity) in self.load.iter().zip(&self.capacity) {
            if u128::from(*load) * u128::from(most.1) > u128::from(most.0) * u128::from(*capacity) {
                most = (*load, *capacity);
            }
        }
        most
    }

    /// Makes a utilisation (load, capacity) the reference; it is more than 0.
    pub fn refer(&mut self, (load, capacity): (u64, u64), sharpness: u64) {
        self.sharpness = sharpness;
        for (factor, own) in self.factor.iter_mut().zip(&self.capacity) {
            // capacity / (own * load), with as many bits as fit
            let full = u128::from(*own) * u128::from(load);
            let mut numerator = u128::from(capacity);
            let mut shift = 0;
            while numerator < 1 << 126 && (numerator << 1) / full.max(1) < 1 << 63 {
                numerator <<= 1;
                shift += 1;
            }
            *factor = ((numerator / full.max(1)).min(u128::from(u64::MAX)) as u64, shift);
        }
    }

    /// The weight of an arc if it carried `load`.
    pub fn weight(&self, arc: u32, load: u64) -> u64 {
        let (factor, shift) = self.factor[arc as usize];
        let product = u128::from(load) * u128::from(factor);
        let part = if shift >= 32 { product >> (shift - 32) } else { product.saturating_mul(1 << (32 - shift)) };
        let part = part.min(1 << 46) as i64;
        // powers of two below the reference, with 32 fractional bits; the sharpness is below 2^17
        let below = ((1_i64 << 32) - part) * self.sharpness as i64;
        if below < 0 {
            let above = below.unsigned_abs();
            let whole = above >> 32;
            if whole >= u64::from(44 - BITS) {
                return MOST;
            }
            // 2^(whole + fraction) = 2^(whole + 1) * 2^-(1 - fraction)
            let fraction = (1_u64 << 32) - (above & 0xffff_ffff);
            return (self.power(fraction) >> (62 - BITS)) << (whole + 1);
        }
        let whole = below >> 32;
        if whole > i64::from(BITS) {
            return 1;
        }
        ((self.power(below as u64 & 0xffff_ffff) >> (62 - BITS)) >> whole).max(1)
    }

    /// 2^-fraction of 32 bits, in 62 fractional bits, between two steps on a straight line.
    fn power(&self, fraction: u64) -> u64 {
        let index = (fraction >> (32 - STEPS)) as usize;
        let rest = fraction & ((1 << (32 - STEPS)) - 1);
        let Some(next) = self.powers.get(index + 1) else { return self.powers[index] };
        let fall = self.powers[index] - next;
        self.powers[index] - ((u128::from(fall) * u128::from(rest)) >> (32 - STEPS)) as u64
    }

    /// The slope of the potential at an arc if it carried `load`, up to a factor common to all arcs.
    pub fn length_at(&self, arc: u32, load: u64) -> u64 {
        ((self.weight(arc, load) * self.slope[arc as usize]) >> 4).max(1)
    }

    pub fn length(&self, arc: u32) -> u64 {
        self.length_at(arc, self.load[arc as usize])
    }

    /// What the potential gains at an arc between two loads.
    pub fn rise(&self, arc: u32, from: u64, to: u64) -> u64 {
        match self.weight(arc, to) {
            MOST => MOST,
            weight => weight - self.weight(arc, from),
        }
    }

    /// Whether an arc is at least this full, in thousandths of the utilisation given.
    pub fn near(&self, arc: u32, (load, capacity): (u64, u64), thousandths: u32) -> bool {
        let (own, room) = (u128::from(self.load[arc as usize]), u128::from(self.capacity[arc as usize]));
        own * u128::from(capacity) * 1_000 >= room * u128::from(load) * u128::from(thousandths)
    }
}
