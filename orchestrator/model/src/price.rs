//! Price books with daily local windows.

use crate::{
    money::Amount,
    name::ModelName,
    ratio::{Decimal, Ratio},
};
use jiff::{
    Timestamp, civil,
    tz::{AmbiguousOffset, TimeZone},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// Prices per device-hour, core-hour and GiB-hour. Unnamed resources are free; a device without a price is not for sale.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct PriceBook {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gib: Option<Amount>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<PriceWindow>,
    #[serde(flatten)]
    pub devices: BTreeMap<ModelName, Amount>,
}

// By hand: serde's `flatten` loses the path to an entry that does not parse.
impl<'de> Deserialize<'de> for PriceBook {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = PriceBook;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("prices by device model, and `cpu`, `memory_gib`, `windows`")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<PriceBook, A::Error> {
                let mut book = PriceBook::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "cpu" => book.cpu = map.next_value()?,
                        "memory_gib" => book.memory_gib = map.next_value()?,
                        "windows" => book.windows = map.next_value()?,
                        model => {
                            let model = ModelName::new(model).map_err(de::Error::custom)?;
                            book.devices.insert(model, map.next_value()?);
                        }
                    }
                }
                Ok(book)
            }
        }
        d.deserialize_map(Visitor)
    }
}

/// In [from, to) local time all prices are multiplied by `factor`; the first window that matches wins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceWindow {
    pub from: ClockTime,
    pub to: ClockTime,
    pub tz: Zone,
    pub factor: Decimal,
}

/// A time of day to the minute, `HH:MM`; `24:00` is the end of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClockTime {
    minutes: u16,
}

impl ClockTime {
    pub fn minutes(self) -> u16 {
        self.minutes
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClockError {
    #[error("\"{0}\" is not a time of day: write HH:MM, such as 22:00")]
    Time(String),
    #[error("\"{0}\" is not a time zone: use an IANA name, such as Asia/Shanghai")]
    Zone(String),
}

impl FromStr for ClockTime {
    type Err = ClockError;
    fn from_str(text: &str) -> Result<Self, ClockError> {
        let fail = || ClockError::Time(text.chars().take(40).flat_map(char::escape_default).collect());
        let (h, m) = text.split_once(':').ok_or_else(fail)?;
        if h.len() != 2 || m.len() != 2 || !text.bytes().all(|c| c.is_ascii_digit() || c == b':') {
            return Err(fail());
        }
        let (h, m): (u16, u16) = (h.parse().map_err(|_| fail())?, m.parse().map_err(|_| fail())?);
        if m > 59 || h * 60 + m > 24 * 60 { Err(fail()) } else { Ok(Self { minutes: h * 60 + m }) }
    }
}

impl fmt::Display for ClockTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.minutes / 60, self.minutes % 60)
    }
}

/// An IANA time zone, from the database bundled with the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

impl Zone {
    pub fn time_zone(&self) -> &TimeZone {
        &self.zone
    }
}

impl FromStr for Zone {
    type Err = ClockError;
    fn from_str(text: &str) -> Result<Self, ClockError> {
        match TimeZone::get(text) {
            Ok(zone) => Ok(Self { name: text.to_owned(), zone }),
            Err(_) => Err(ClockError::Zone(text.chars().take(40).flat_map(char::escape_default).collect())),
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

macro_rules! as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(de::Error::custom)
            }
        }
    };
}
as_text!(ClockTime);
as_text!(Zone);

/// Whether the local time of day lies in [from, to) at `at`; passes midnight where `from` is later than `to`.
pub fn inside(from: ClockTime, to: ClockTime, zone: &Zone, at: Timestamp) -> bool {
    let local = zone.zone.to_datetime(at).time();
    let minute = local.hour() as u16 * 60 + local.minute() as u16;
    if from.minutes <= to.minutes {
        (from.minutes..to.minutes).contains(&minute)
    } else {
        minute >= from.minutes || minute < to.minutes
    }
}

/// The first instant strictly after `at` at which the daily window [from, to) opens or closes. `None`: it never does.
pub fn window_edge_after(at: Timestamp, from: ClockTime, to: ClockTime, zone: &Zone) -> Option<Timestamp> {
    let changes = |instant: &Timestamp| {
        let before = Timestamp::from_nanosecond(instant.as_nanosecond() - 1).ok();
        before.is_some_and(|before| inside(from, to, zone, before) != inside(from, to, zone, *instant))
    };
    // A clock set forward or back can open or close a window by itself.
    let jump = zone.zone.following(at).next().map(|t| t.timestamp()).filter(changes);
    let regular = instants_after(at, from, zone).chain(instants_after(at, to, zone)).filter(changes).min();
    [jump, regular].into_iter().flatten().min()
}

impl PriceBook {
    /// The factor that holds at `at`.
    pub fn factor_at(&self, at: Timestamp) -> Ratio {
        let open = self.windows.iter().find(|w| inside(w.from, w.to, &w.tz, at));
        open.map_or(Ratio::from_integer(1), |w| w.factor.ratio())
    }

    /// The first instant strictly after `at` at which a window opens or closes, if there are windows.
    pub fn next_edge(&self, at: Timestamp) -> Option<Timestamp> {
        self.windows.iter().filter_map(|w| window_edge_after(at, w.from, w.to, &w.tz)).min()
    }
}

/// The instants of `clock` on this and the next days that lie after `at`. A time that a clock change repeats gives both
/// instants, one that it skips gives the instant of the change.
fn instants_after(at: Timestamp, clock: ClockTime, zone: &Zone) -> impl Iterator<Item = Timestamp> {
    let zone = &zone.zone;
    let today = zone.to_datetime(at).date();
    // the day before covers 24:00, the two after it a clock change that swallows a day's edge
    let at_day = move |days: i64| -> Option<[Option<Timestamp>; 2]> {
        let midnight = today.checked_add(jiff::Span::new().days(days)).ok()?.to_datetime(civil::Time::midnight());
        let local = midnight.checked_add(jiff::Span::new().minutes(i64::from(clock.minutes))).ok()?;
        match zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => Some([offset.to_timestamp(local).ok(), None]),
            AmbiguousOffset::Fold { before, after } => {
                Some([before.to_timestamp(local).ok(), after.to_timestamp(local).ok()])
            }
            AmbiguousOffset::Gap { before, .. } => {
                let past = before.to_timestamp(local).ok()?;
                Some([zone.preceding(past).next().map(|t| t.timestamp()), None])
            }
        }
    };
    (-1..=2).filter_map(at_day).flatten().flatten().filter(move |instant| *instant > at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(from: &str, to: &str, tz: &str, factor: &str) -> PriceBook {
        let window = PriceWindow {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            tz: tz.parse().unwrap(),
            factor: factor.parse().unwrap(),
        };
        PriceBook { windows: vec![window], ..PriceBook::default() }
    }

    #[test]
    fn a_window_over_midnight_is_local_and_half_open() {
        let b = book("22:00", "08:00", "Asia/Shanghai", "0.6");
        let at = |t: &str| b.factor_at(t.parse().unwrap());
        assert_eq!(at("2026-11-30T14:00:00Z"), Ratio::new(3, 5));
        assert_eq!(at("2026-11-30T13:59:59Z"), Ratio::from_integer(1));
        assert_eq!(at("2026-11-30T23:59:59Z"), Ratio::new(3, 5));
        assert_eq!(at("2026-12-01T00:00:00Z"), Ratio::from_integer(1));
    }

    #[test]
    fn the_next_edge_is_strictly_later() {
        let b = book("22:00", "24:00", "Asia/Shanghai", "0.5");
        let edge = b.next_edge("2026-11-30T14:00:00Z".parse().unwrap()).unwrap();
        assert_eq!(edge, "2026-11-30T16:00:00Z".parse().unwrap());
        assert_eq!(b.next_edge(edge).unwrap(), "2026-12-01T14:00:00Z".parse().unwrap());
    }

    #[test]
    fn a_clock_change_moves_no_edge_and_hides_none() {
        // New York, 2026-03-08: 02:00 EST becomes 03:00 EDT; 2026-11-01: 02:00 EDT becomes 01:00 EST
        let at = |t: &str| -> Timestamp { t.parse().unwrap() };
        let skipped = book("02:30", "04:00", "America/New_York", "0.5");
        assert_eq!(skipped.next_edge(at("2026-03-08T06:00:00Z")), Some(at("2026-03-08T07:00:00Z")));
        assert_eq!(skipped.factor_at(at("2026-03-08T07:00:00Z")), Ratio::new(1, 2));
        let swallowed = book("02:10", "02:50", "America/New_York", "0.5");
        assert_eq!(swallowed.next_edge(at("2026-03-08T06:00:00Z")), Some(at("2026-03-09T06:10:00Z")));
        let repeated = book("01:30", "03:00", "America/New_York", "0.5");
        let mut edges = vec![];
        let mut now = at("2026-11-01T00:00:00Z");
        for _ in 0..4 {
            now = repeated.next_edge(now).unwrap();
            edges.push(now.to_string());
        }
        assert_eq!(
            edges,
            ["2026-11-01T05:30:00Z", "2026-11-01T06:00:00Z", "2026-11-01T06:30:00Z", "2026-11-01T08:00:00Z"]
        );
    }

    #[test]
    fn a_window_that_never_closes_has_no_edge() {
        let b = book("00:00", "24:00", "UTC", "0.5");
        assert_eq!(b.next_edge("2026-11-30T14:00:00Z".parse().unwrap()), None);
        assert_eq!(b.factor_at("2026-11-30T14:00:00Z".parse().unwrap()), Ratio::new(1, 2));
    }

    #[test]
    fn a_price_book_reads_devices_beside_its_own_keys() {
        let b: PriceBook = serde_json::from_str(r#"{"H100": "28 CNY", "cpu": "0.2 CNY"}"#).unwrap();
        assert_eq!(b.devices.len(), 1);
        assert_eq!(serde_json::from_str::<PriceBook>(&serde_json::to_string(&b).unwrap()).unwrap(), b);
        assert!(serde_json::from_str::<PriceBook>(r#"{"H 100": "28 CNY"}"#).is_err());
    }
}
