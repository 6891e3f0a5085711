//! Slurm's words for generic resources: `gpu:a100:2(IDX:0-1)` of a node, `cpu=4,gres/gpu:a100=2` of a job.

use std::collections::BTreeSet;

/// The resource that counts as an accelerator.
const GPU: &str = "gpu";
/// More than any node has: what says more is not to be believed.
const MOST: u32 = 4_096;

/// What a field does not read as; the use it tells of is unknown, never nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the field does not read as generic resources")]
pub struct Unreadable;

/// Accelerators by a node's or a job's field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gpus {
    /// Of the type named first.
    pub kind: Option<String>,
    pub count: u32,
    /// Which, where the field says so.
    pub indices: BTreeSet<u32>,
}

/// `gpu:a100:8(S:0-1),nic:2`, or `gpu:a100:2(IDX:0-1)`. Empty, `(null)` and `N/A` are none.
pub fn gpus(field: &str) -> Result<Gpus, Unreadable> {
    let mut found = Gpus::default();
    if matches!(field.trim(), "" | "(null)" | "N/A") {
        return Ok(found);
    }
    for part in parts(field)? {
        let (head, tail) = part.split_once('(').map_or((part, None), |(head, tail)| (head, tail.strip_suffix(')')));
        let head = head.strip_prefix("gres:").or(head.strip_prefix("gres/")).unwrap_or(head);
        let mut words = head.split(':');
        if words.next() != Some(GPU) {
            continue;
        }
        let (kind, count) = match (words.next(), words.next(), words.next()) {
            (None, ..) => (None, 1),
            (Some(count), None, None) if count.starts_with(|c: char| c.is_ascii_digit()) => (None, number(count)?),
            (Some(kind), None, None) => (Some(kind), 1),
            (Some(kind), Some(count), None) => (Some(kind), number(count)?),
            _ => return Err(Unreadable),
        };
        let is_word = |kind: &str| kind.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        if !kind.is_none_or(is_word) {
            return Err(Unreadable);
        }
        found.count = found.count.checked_add(count).filter(|&count| count <= MOST).ok_or(Unreadable)?;
        if found.kind.is_none() {
            found.kind = kind.map(str::to_owned);
        }
        match tail.and_then(|tail| tail.strip_prefix("IDX:")) {
            None | Some("N/A" | "") => {}
            Some(list) => found.indices.extend(indices(list)?),
        }
    }
    Ok(found)
}

/// Accelerators of a whole job by its trackable resources: `cpu=4,gres/gpu:a100=3,gres/gpu=3`. Types are parts of the sum
/// without one, where that is there. `None`: the field does not speak of accelerators.
pub fn tres(field: &str) -> Result<Option<u32>, Unreadable> {
    let (mut whole, mut typed) = (None, None);
    for part in field.split(',').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or(Unreadable)?;
        let Some(name) = name.strip_prefix("gres/gpu") else { continue };
        let value = number(value)?;
        if name.is_empty() {
            whole = Some(value);
        } else if name.starts_with(':') {
            typed = Some(typed.unwrap_or(0_u32).checked_add(value).ok_or(Unreadable)?);
        }
    }
    Ok(whole.or(typed))
}

/// At commas outside of brackets.
fn parts(field: &str) -> Result<Vec<&str>, Unreadable> {
    let (mut found, mut depth, mut begin) = (Vec::new(), 0_u32, 0);
    for (place, c) in field.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or(Unreadable)?,
            ',' if depth == 0 => {
                found.push(&field[begin..place]);
                begin = place + 1;
            }
            _ => {}
        }
    }
    found.push(&field[begin..]);
    if depth == 0 { Ok(found) } else { Err(Unreadable) }
}

/// `0-1,4`
fn indices(list: &str) -> Result<BTreeSet<u32>, Unreadable> {
    let mut found = BTreeSet::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        found.extend(first..=last);
    }
    Ok(found)
}

fn number(text: &str) -> Result<u32, Unreadable> {
    text.parse().ok().filter(|&number| number <= MOST).ok_or(Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is(kind: Option<&str>, count: u32, indices: &[u32]) -> Gpus {
        Gpus { kind: kind.map(str::to_owned), count, indices: indices.iter().copied().collect() }
    }

    #[test]
    fn fields_read_as_slurm_writes_them() {
        assert_eq!(gpus("gpu:a100:8"), Ok(is(Some("a100"), 8, &[])));
        assert_eq!(gpus("gpu:a100:8(S:0-1),nic:2"), Ok(is(Some("a100"), 8, &[])));
        assert_eq!(gpus("gpu:a100:3(IDX:0-1,4),shard:0"), Ok(is(Some("a100"), 3, &[0, 1, 4])));
        assert_eq!(gpus("gpu:a100:0(IDX:N/A)"), Ok(is(Some("a100"), 0, &[])));
        assert_eq!(gpus("gres:gpu:2"), Ok(is(None, 2, &[])));
        assert_eq!(gpus("gpu"), Ok(is(None, 1, &[])));
        assert_eq!(gpus("gpu:a100"), Ok(is(Some("a100"), 1, &[])));
        assert_eq!(gpus("gpu:a100:2,gpu:h100:1"), Ok(is(Some("a100"), 3, &[])));
        for none in ["", "(null)", "N/A", "nic:2"] {
            assert_eq!(gpus(none), Ok(is(None, 0, &[])), "{none}");
        }
        for bad in ["gpu:a100:x", "gpu:a:b:1:2", "gpu:1(IDX:0", "gpu:1(IDX:a)", "gpu:99999999"] {
            assert_eq!(gpus(bad), Err(Unreadable), "{bad}");
        }
    }

    /// However a job asked, what it was given counts, and typed and untyped words for the same cards count once.
    #[test]
    fn trackable_resources_count_each_card_once() {
        let sum = ["cpu=4,gres/gpu=2", "cpu=8,gres/gpu=2", "gres/gpu:a100=3,gres/gpu=3"]
            .map(|field| tres(field).unwrap().unwrap());
        assert_eq!(sum.iter().sum::<u32>(), 7);
        assert_eq!(tres("gres/gpu:a100=1,gres/gpu:h100=2"), Ok(Some(3)));
        assert_eq!(tres("cpu=1,mem=1000M"), Ok(None));
        for bad in ["gres/gpu=many", "gres/gpu", "gres/gpu=-1"] {
            assert_eq!(tres(bad), Err(Unreadable), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            if let Ok(found) = gpus(&text) {
                prop_assert!(found.count <= MOST);
            }
            let _ = tres(&text);
        }
    }
}
