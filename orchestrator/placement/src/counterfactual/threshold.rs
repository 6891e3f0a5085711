//! Where a number begins to be enough.

/// The value nearest to `now`, which is not enough, that is: enough stays enough farther on, up to `far`. `guess` is tried
/// first, and where `tight` nothing nearer than it can be enough. `step` is how exact the answer is.
pub(super) fn nearest(
    (now, far): (u64, u64),
    guess: Option<u64>,
    tight: bool,
    step: u64,
    enough: impl Fn(u64) -> bool,
) -> Option<u64> {
    let between = |v: &u64| now.min(far) <= *v && *v <= now.max(far) && *v != now;
    let (mut bad, mut good) = (now, far);
    if let Some(guess) = guess.filter(between) {
        if enough(guess) {
            return Some(if tight { guess } else { refined(now, guess, &enough) });
        }
        bad = guess;
    }
    if bad == far || !enough(far) {
        return None;
    }
    while bad.abs_diff(good) > step.max(1) {
        let middle = bad.min(good) + bad.abs_diff(good) / 2;
        if enough(middle) { good = middle } else { bad = middle }
    }
    Some(good)
}

/// Of `values`, which lie ever farther from `now`, the first that is enough, if the last is, or what lies nearer and is
/// enough too. Where `tight` nothing before the first value can be.
pub(super) fn first_of(values: &[u64], now: u64, tight: bool, enough: impl Fn(u64) -> bool) -> Option<u64> {
    let (first, last) = (*values.first()?, *values.last()?);
    if enough(first) {
        return Some(if tight { first } else { refined(now, first, &enough) });
    }
    if values.len() == 1 || !enough(last) {
        return None;
    }
    let (mut bad, mut good) = (0, values.len() - 1);
    while good - bad > 1 {
        let middle = usize::midpoint(bad, good);
        if enough(values[middle]) { good = middle } else { bad = middle }
    }
    Some(refined(values[bad], values[good], &enough))
}

/// The value nearest to `bad` that is enough, where `good` is and mostly nothing nearer.
fn refined(mut bad: u64, mut good: u64, enough: &impl Fn(u64) -> bool) -> u64 {
    let nearer = if bad < good { good - 1 } else { good + 1 };
    if nearer == bad || !enough(nearer) {
        return good;
    }
    good = nearer;
    while bad.abs_diff(good) > 1 {
        let middle = bad.min(good) + bad.abs_diff(good) / 2;
        if enough(middle) { good = middle } else { bad = middle }
    }
    good
}

#[cfg(test)]
mod tests {
    use super::{first_of, nearest};

    #[test]
    fn a_threshold_is_found_from_either_side_whatever_the_guess() {
        for truth in 1..40_u64 {
            for guess in (0..45).map(Some).chain([None]) {
                assert_eq!(nearest((0, 40), guess, false, 1, |v| v >= truth), Some(truth), "{guess:?}");
                assert_eq!(nearest((40, 0), guess, false, 1, |v| v < truth), Some(truth - 1), "{guess:?}");
            }
            assert_eq!(first_of(&[5, 10, 20, 40], 0, false, |v| v >= truth), Some(truth));
        }
        assert_eq!(nearest((0, 40), Some(7), false, 1, |_| false), None);
        assert_eq!(first_of(&[5, 10], 0, true, |_| false), None);
    }
}
