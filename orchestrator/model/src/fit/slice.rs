//! Slices of one device (NVIDIA MIG): which sets of slices a device can hold at once.
//!
//! A slice stands on neighbouring memory slices and may begin at a few of them only, as the NVIDIA MIG User Guide lists
//! the placements of each profile (`nvidia-smi mig -lgipp`). Devices have eight memory slices and seven compute slices
//! (A100, H100, H200 and later), or four of each (A30). The starts alone keep the compute slices: no set of slices that
//! do not overlap asks for more than there are.

use crate::{quantity::Bytes, slice::SliceProfile};
use std::collections::BTreeMap;

/// Slices of one device, and what is free of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slices {
    /// Cut already, and so it stays: these slices are idle; sorted.
    Cut(Vec<SliceProfile>),
    /// Cut as orders ask.
    Open {
        /// Memory slices that are taken, a bit each from the first.
        taken: u8,
        /// The media engines are taken: one slice of a device may have them.
        media: bool,
        /// Slices that are new: they stand wherever there is room beside `taken`; sorted.
        new: Vec<SliceProfile>,
    },
}

/// Where a profile may stand on a device: how many memory slices it takes, and at which it may begin.
struct Spot {
    size: u8,
    starts: &'static [u8],
}

/// On eight memory slices.
const EIGHT: [Kind; 6] = [
    (1, 1, &[0, 1, 2, 3, 4, 5, 6]),
    (1, 2, &[0, 2, 4, 6]),
    (2, 2, &[0, 2, 4]),
    (3, 4, &[0, 4]),
    (4, 4, &[0]),
    (7, 8, &[0]),
];

/// On four.
const FOUR: [Kind; 3] = [(1, 1, &[0, 1, 2, 3]), (2, 2, &[0, 2]), (4, 4, &[0])];

/// Devices with less memory than this have four memory slices.
const SMALL: u64 = 32 << 30;

/// Compute slices, memory slices, starts.
type Kind = (u8, u8, &'static [u8]);

/// Names of the profiles above, in their order, by the device's memory in GiB: names round, each device in its own way.
const NAMES: [(u64, &[u16]); 8] = [
    (24, &[6, 12, 24]),
    (40, &[5, 10, 10, 20, 20, 40]),
    (64, &[8, 16, 16, 32, 32, 64]),
    (80, &[10, 20, 20, 40, 40, 80]),
    (96, &[12, 24, 24, 48, 48, 96]),
    (141, &[18, 35, 35, 71, 71, 141]),
    (180, &[23, 45, 45, 90, 90, 180]),
    (192, &[24, 47, 47, 95, 95, 192]),
];

/// The profiles that a device with so much memory can be cut into, but for those with media engines; none where this device
/// is not known.
pub fn profiles(device: Bytes) -> Vec<SliceProfile> {
    let kinds = geometry(device).1;
    // what a driver reports is a few per cent off the name
    let near = |gib: u64| device.bytes().abs_diff(gib << 30) * 20 <= gib << 30;
    let named = NAMES.iter().filter(|(gib, names)| near(*gib) && names.len() == kinds.len());
    let Some((_, names)) = named.min_by_key(|(gib, _)| device.bytes().abs_diff(gib << 30)) else { return Vec::new() };
    let profile = |((compute, ..), gigabytes): (&Kind, &u16)| SliceProfile {
        compute: *compute,
        gigabytes: *gigabytes,
        media: false,
    };
    kinds.iter().zip(*names).map(profile).collect()
}

/// Memory of a slice on a device with so much.
pub fn memory(profile: SliceProfile, device: Bytes) -> Bytes {
    let part = |size| u128::from(device.bytes()) * u128::from(size) / u128::from(memory_slices(device));
    size(profile, device).map_or(profile.memory(), |size| Bytes::from_bytes(part(size) as u64))
}

/// What can still be cut of a device beside the slices that stand on it, by profile: how many of each, were no other cut.
/// Where it is not known at which memory slice one begins, this many can be cut wherever that is.
pub fn open(device: Bytes, standing: &[(SliceProfile, Option<u8>)]) -> BTreeMap<SliceProfile, u32> {
    let mut fixed = 0_u8;
    let mut loose = Vec::new();
    for (profile, start) in standing {
        match (start, spot(*profile, device)) {
            (Some(start), Some(spot)) if *start < 8 => fixed |= ((((1_u16 << spot.size) - 1) << start) & 0xff) as u8,
            (_, Some(_)) => loose.push(*profile),
            // a slice of which nobody knows what it takes: nothing can be promised
            (_, None) => return BTreeMap::new(),
        }
    }
    let mut masks = std::collections::BTreeSet::new();
    arrange(fixed, &largest_first(&loose, device), device, &mut |mask| {
        masks.insert(mask);
        false
    });
    let media = standing.iter().any(|(profile, _)| profile.media);
    let mut counts = BTreeMap::new();
    for plain in profiles(device) {
        let Some(spot) = spot(plain, device) else { continue };
        let least = masks.iter().map(|mask| places(*mask, &spot).count() as u32).min().unwrap_or(0);
        if least > 0 {
            counts.insert(plain, least);
            if has_media(plain, device) && !media {
                counts.insert(SliceProfile { media: true, ..plain }, 1);
            }
        }
    }
    counts
}

/// Whether there is such a profile with the media engines too: of one compute slice, and on four memory slices of two.
fn has_media(profile: SliceProfile, device: Bytes) -> bool {
    let Some(spot) = spot(SliceProfile { media: false, ..profile }, device) else { return false };
    match memory_slices(device) {
        4 => profile.compute <= 2,
        _ => profile.compute == 1 && spot.size == 1,
    }
}

fn geometry(device: Bytes) -> (u8, &'static [Kind]) {
    if device.bytes() < SMALL { (4, &FOUR) } else { (8, &EIGHT) }
}

/// Memory slices of a device.
pub fn memory_slices(device: Bytes) -> u8 {
    geometry(device).0
}

/// `None`: a device with so much memory has no such profile.
fn spot(profile: SliceProfile, device: Bytes) -> Option<Spot> {
    let (all, kinds) = geometry(device);
    let named = u128::from(profile.memory().bytes()) * u128::from(all);
    // the name rounds the memory: 18 GB of 141 are an eighth
    let near = |size: u8| {
        let exact = u128::from(device.bytes()) * u128::from(size);
        named.abs_diff(exact) * 10 <= exact
    };
    let media = |size: u8| !profile.media || size == 1 || (all == 4 && size == 2);
    kinds
        .iter()
        .find(|(compute, size, _)| *compute == profile.compute && near(*size) && media(*size))
        .map(|(_, size, starts)| Spot { size: *size, starts })
}

/// Memory slices that the profile takes of a device with so much memory. `None`: there is no such profile on it.
pub fn size(profile: SliceProfile, device: Bytes) -> Option<u8> {
    spot(profile, device).map(|s| s.size)
}

impl Slices {
    /// A device that nothing is cut of.
    pub fn open() -> Self {
        Self::Open { taken: 0, media: false, new: Vec::new() }
    }

    /// The device with one slice less. `None`: it has no room for it, in whatever arrangement.
    pub fn take(&self, profile: SliceProfile, device: Bytes) -> Option<Self> {
        match self {
            Self::Cut(idle) => {
                let at = idle.iter().position(|p| *p == profile)?;
                let mut idle = idle.clone();
                idle.remove(at);
                Some(Self::Cut(idle))
            }
            Self::Open { taken, media, new } => {
                let mut new = new.clone();
                new.push(profile);
                new.sort_unstable();
                let alone = usize::from(*media) + new.iter().filter(|p| p.media).count() <= 1;
                (alone && fits(*taken, &new, device)).then_some(Self::Open { taken: *taken, media: *media, new })
            }
        }
    }

    /// Whether the device has this slice to give.
    pub fn has(&self, profile: SliceProfile, device: Bytes) -> bool {
        self.take(profile, device).is_some()
    }

    /// Whether no slice of any kind is left.
    pub fn is_full(&self, device: Bytes) -> bool {
        match self {
            Self::Cut(idle) => idle.is_empty(),
            Self::Open { taken, new, .. } => {
                let (all, kinds) = geometry(device);
                let gigabytes = |size: u8| (device.bytes() * u64::from(size) / u64::from(all)) >> 30;
                kinds.iter().all(|(compute, size, _)| {
                    let kind =
                        SliceProfile { compute: *compute, gigabytes: gigabytes(*size).max(1) as u16, media: false };
                    let mut more = new.clone();
                    more.push(kind);
                    !fits(*taken, &more, device)
                })
            }
        }
    }

    /// Memory slices that are not taken.
    pub fn free(&self, device: Bytes) -> u8 {
        let of = |list: &[SliceProfile]| list.iter().filter_map(|p| size(*p, device)).sum::<u8>();
        match self {
            Self::Cut(idle) => of(idle),
            Self::Open { taken, new, .. } => memory_slices(device).saturating_sub(taken.count_ones() as u8 + of(new)),
        }
    }

    /// The device once its new slices have found their places: where they leave the most room for others, counted over all
    /// profiles by the memory slices that they could still take; of equals the first ones.
    pub fn settled(&self, device: Bytes) -> Self {
        let Self::Open { taken, media, new } = self else { return self.clone() };
        let mut best: Option<(u32, std::cmp::Reverse<u8>)> = None;
        arrange(*taken, &largest_first(new, device), device, &mut |mask| {
            let key = (openings(mask, device), std::cmp::Reverse(mask));
            best = best.max(Some(key));
            false
        });
        let taken = best.map_or(*taken, |(_, mask)| mask.0);
        Self::Open { taken, media: *media || new.iter().any(|p| p.media), new: Vec::new() }
    }
}

/// Devices that slices which are cut already stand on: the fewest found by filling with the largest first. `None`: they do
/// not stand on `most` devices.
pub fn cut(slices: &[SliceProfile], device: Bytes, most: u32) -> Option<Vec<Slices>> {
    let mut devices: Vec<Slices> = Vec::new();
    for profile in largest_first(slices, device) {
        let at = devices.iter().enumerate().find_map(|(i, d)| Some((i, d.take(profile, device)?)));
        match at {
            Some((i, with)) => devices[i] = with,
            None if devices.len() < most as usize => devices.push(Slices::open().take(profile, device)?),
            None => return None,
        }
    }
    let idle = devices.into_iter().map(|d| match d {
        Slices::Open { new, .. } => Slices::Cut(new),
        cut @ Slices::Cut(_) => cut,
    });
    Some(idle.collect())
}

fn largest_first(slices: &[SliceProfile], device: Bytes) -> Vec<SliceProfile> {
    let mut sorted = slices.to_vec();
    sorted.sort_by_key(|p| std::cmp::Reverse((size(*p, device), p.compute, *p)));
    sorted
}

fn fits(taken: u8, slices: &[SliceProfile], device: Bytes) -> bool {
    arrange(taken, &largest_first(slices, device), device, &mut |_| true)
}

/// Tries every arrangement of the slices beside `taken` until `found` says that one will do.
fn arrange(taken: u8, slices: &[SliceProfile], device: Bytes, found: &mut dyn FnMut(u8) -> bool) -> bool {
    let Some((first, rest)) = slices.split_first() else { return found(taken) };
    let Some(spot) = spot(*first, device) else { return false };
    places(taken, &spot).any(|bits| arrange(taken | bits, rest, device, found))
}

/// Memory slices, as bits, that the spot could take beside `taken`.
fn places(taken: u8, spot: &Spot) -> impl Iterator<Item = u8> + use<> {
    let (size, starts) = (spot.size, spot.starts);
    let bits = move |start: &u8| ((((1_u16 << size) - 1) << start) & 0xff) as u8;
    starts.iter().map(bits).filter(move |b| taken & b == 0)
}

/// How much room for slices a device has beside `taken`: the memory slices of every place that is still open.
fn openings(taken: u8, device: Bytes) -> u32 {
    let kinds = geometry(device).1.iter().map(|(_, size, starts)| Spot { size: *size, starts });
    kinds.map(|s| u32::from(s.size) * places(taken, &s).count() as u32).sum()
}

#[cfg(test)]
mod tests;
