//! A small exact linear programme: rates on listed paths, at the least cost, within the links' room.

use rhumb_model::ratio::Ratio;

/// Least-cost rates that sum to `total`: `cost` by path, and for each limit the paths on it and what they may have together.
/// `None`: the limits do not allow it, or the figures leave the range of exact arithmetic.
pub(super) fn rates(cost: &[i64], limits: &[(Vec<usize>, u64)], total: u64) -> Option<Vec<Ratio>> {
    let (paths, rows) = (cost.len(), limits.len() + 1);
    let columns = paths + limits.len() + 1;
    let whole = |n: u64| Ratio::from_integer(i128::from(n));
    let (zero, one) = (whole(0), whole(1));
    // the first row: all rates and what is not carried sum to the total; then a row with a slack for each limit
    let mut table = vec![vec![zero; columns + 1]; rows];
    table[0][..paths].fill(one);
    table[0][columns - 1] = one;
    table[0][columns] = whole(total);
    for (i, (members, room)) in limits.iter().enumerate() {
        for path in members {
            table[i + 1][*path] = one;
        }
        table[i + 1][paths + i] = one;
        table[i + 1][columns] = whole(*room);
    }
    let mut basis: Vec<usize> = std::iter::once(columns - 1).chain(paths..paths + limits.len()).collect();
    // what is not carried counts before all cost
    let price = |column: usize| -> (i128, i128) {
        if column == columns - 1 { (1, 0) } else { (0, cost.get(column).map_or(0, |c| i128::from(*c))) }
    };
    loop {
        let reduced = |column: usize| -> (Ratio, Ratio) {
            let (short, dear) = price(column);
            let mut sum = (Ratio::from_integer(short), Ratio::from_integer(dear));
            for (row, basic) in table.iter().zip(&basis) {
                let (short, dear) = price(*basic);
                sum.0 -= row[column] * Ratio::from_integer(short);
                sum.1 -= row[column] * Ratio::from_integer(dear);
            }
            sum
        };
        // Bland's rule: the first column that helps, so that no basis comes back
        let Some(enters) = (0..columns).find(|c| !basis.contains(c) && reduced(*c) < (zero, zero)) else { break };
        let ratios = (0..rows).filter(|r| table[*r][enters] > zero);
        let leaves = ratios.min_by_key(|r| (table[*r][columns] / table[*r][enters], basis[*r]))?;
        let pivot = table[leaves][enters];
        table[leaves].iter_mut().for_each(|v| *v /= pivot);
        let row = table[leaves].clone();
        for (_, other) in table.iter_mut().enumerate().filter(|(r, _)| *r != leaves) {
            let factor = other[enters];
            if factor != zero {
                other.iter_mut().zip(&row).for_each(|(v, p)| *v -= *p * factor);
            }
        }
        basis[leaves] = enters;
    }
    let mut rates = vec![zero; paths];
    for (row, basic) in table.iter().zip(&basis) {
        if *basic == columns - 1 && row[columns] > zero {
            return None;
        }
        if let Some(rate) = rates.get_mut(*basic) {
            *rate = row[columns];
        }
    }
    Some(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_rates_within_the_limits() {
        let whole = |n: i128| Ratio::from_integer(n);
        // the cheap path carries 3, the next shares a link of 4 with it
        let limits = [(vec![0], 3), (vec![0, 1], 4), (vec![2], 9)];
        assert_eq!(rates(&[1, 2, 5], &limits, 10), Some(vec![whole(3), whole(1), whole(6)]));
        assert_eq!(rates(&[1, 2, 5], &limits, 14), None);
        // three paths, each two of them over one link of 1: half each is not a whole number
        let pairs = [(vec![0, 1], 1), (vec![1, 2], 1), (vec![0, 2], 1)];
        let half = Ratio::new(1, 2);
        assert_eq!(rates(&[1, 1, 1, 9], &pairs, 2), Some(vec![half, half, half, half]));
    }
}
