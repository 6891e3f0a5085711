//! Chance that depends on what is asked alone, never on what was asked before.

/// A number from a seed and whatever tells one draw from another (splitmix64's finaliser).
pub(crate) fn mix(of: &[u64]) -> u64 {
    of.iter().fold(0, |state, value| {
        let mut z = state.wrapping_add(*value).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// A text as a number.
pub(crate) fn of_text(text: &str) -> u64 {
    text.bytes().fold(0, |state, byte| mix(&[state, u64::from(byte)]))
}
