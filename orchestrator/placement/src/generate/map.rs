//! Cities of the world: where sites, points of presence and users of a generated federation are.

/// A city, in hundredths of a degree north and east.
#[derive(Debug, Clone, Copy)]
pub(super) struct City {
    pub name: &'static str,
    pub lat: i64,
    pub lon: i64,
    pub jurisdiction: &'static str,
    pub zone: &'static str,
    pub continent: &'static str,
    /// Price level in per cent.
    pub level: u64,
}

const fn city(
    name: &'static str,
    lat: i64,
    lon: i64,
    (jurisdiction, zone, continent): (&'static str, &'static str, &'static str),
    level: u64,
) -> City {
    City { name, lat, lon, jurisdiction, zone, continent, level }
}

const CN: (&str, &str, &str) = ("CN", "Asia/Shanghai", "east-asia");
const US_EAST: (&str, &str, &str) = ("US", "America/New_York", "america");
const US_MID: (&str, &str, &str) = ("US", "America/Chicago", "america");
const US_WEST: (&str, &str, &str) = ("US", "America/Los_Angeles", "america");
const DE: (&str, &str, &str) = ("DE", "Europe/Berlin", "europe");
const FR: (&str, &str, &str) = ("FR", "Europe/Paris", "europe");

/// Most wanted first, so that a small federation has the first few.
pub(super) const CITIES: [City; 48] = [
    city("beijing", 3990, 11640, CN, 105),
    city("shanghai", 3123, 12147, CN, 110),
    city("guiyang", 2665, 10663, CN, 75),
    city("frankfurt", 5011, 868, DE, 120),
    city("hohhot", 4084, 11175, CN, 70),
    city("singapore", 135, 10382, ("SG", "Asia/Singapore", "south-asia"), 130),
    city("ashburn", 3904, -7749, US_EAST, 100),
    city("shenzhen", 2254, 11406, CN, 110),
    city("chengdu", 3057, 10407, CN, 85),
    city("sanjose", 3734, -12189, US_WEST, 115),
    city("wuhan", 3059, 11430, CN, 90),
    city("zhongwei", 3751, 10519, CN, 70),
    city("hangzhou", 3027, 12015, CN, 105),
    city("tokyo", 3568, 13969, ("JP", "Asia/Tokyo", "east-asia"), 135),
    city("london", 5151, -13, ("GB", "Europe/London", "europe"), 125),
    city("dallas", 3278, -9680, US_MID, 95),
    city("guangzhou", 2313, 11326, CN, 105),
    city("nanjing", 3206, 11880, CN, 95),
    city("paris", 4886, 235, FR, 120),
    city("chongqing", 2956, 10655, CN, 85),
    city("xian", 3434, 10894, CN, 85),
    city("seoul", 3757, 12698, ("KR", "Asia/Seoul", "east-asia"), 120),
    city("amsterdam", 5237, 490, ("NL", "Europe/Amsterdam", "europe"), 115),
    city("phoenix", 3345, -11207, ("US", "America/Phoenix", "america"), 90),
    city("zhangjiakou", 4077, 11488, CN, 75),
    city("hongkong", 2232, 11417, ("HK", "Asia/Hong_Kong", "east-asia"), 140),
    city("mumbai", 1908, 7288, ("IN", "Asia/Kolkata", "south-asia"), 95),
    city("stockholm", 5933, 1807, ("SE", "Europe/Stockholm", "europe"), 85),
    city("chicago", 4188, -8763, US_MID, 100),
    city("lanzhou", 3606, 10383, CN, 80),
    city("shenyang", 4181, 12343, CN, 85),
    city("berlin", 5252, 1340, DE, 120),
    city("osaka", 3469, 13550, ("JP", "Asia/Tokyo", "east-asia"), 130),
    city("johor", 149, 10374, ("MY", "Asia/Kuala_Lumpur", "south-asia"), 90),
    city("dublin", 5335, -626, ("IE", "Europe/Dublin", "europe"), 115),
    city("portland", 4552, -12268, US_WEST, 85),
    city("atlanta", 3375, -8439, US_EAST, 95),
    city("milan", 4546, 919, ("IT", "Europe/Rome", "europe"), 120),
    city("madrid", 4042, -370, ("ES", "Europe/Madrid", "europe"), 105),
    city("warsaw", 5223, 2101, ("PL", "Europe/Warsaw", "europe"), 100),
    city("chennai", 1308, 8027, ("IN", "Asia/Kolkata", "south-asia"), 90),
    city("newyork", 4071, -7401, US_EAST, 120),
    city("losangeles", 3405, -11824, US_WEST, 115),
    city("marseille", 4330, 537, FR, 110),
    city("dubai", 2520, 5527, ("AE", "Asia/Dubai", "south-asia"), 110),
    city("montreal", 4550, -7357, ("CA", "America/Toronto", "america"), 80),
    city("sydney", -3387, 15121, ("AU", "Australia/Sydney", "oceania"), 130),
    city("saopaulo", -2355, -4663, ("BR", "America/Sao_Paulo", "america"), 125),
];

/// A spot on the map, in hundredths of a degree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Spot {
    pub lat: i64,
    pub lon: i64,
}

impl City {
    pub fn spot(&self) -> Spot {
        Spot { lat: self.lat, lon: self.lon }
    }
}

/// Cosine by five degrees, in thousandths.
const COSINE: [i64; 19] = [1000, 996, 985, 966, 940, 906, 866, 819, 766, 707, 643, 574, 500, 423, 342, 259, 174, 87, 0];

/// Kilometres on an equirectangular map. In whole numbers, so that every machine draws the same map; a few per cent off
/// within a continent and up to a third off across oceans, which is less than what cables go out of their way.
pub(super) fn km(a: Spot, b: Spot) -> u64 {
    let across = (a.lon - b.lon).abs();
    let across = across.min(36_000 - across);
    let middle = i64::midpoint(a.lat, b.lat).unsigned_abs() as usize / 500;
    let (x, y) = (across * COSINE[middle.min(18)] / 1000, a.lat - b.lat);
    // 111.2 km to the degree
    ((x * x + y * y).unsigned_abs() * 1112 * 1112).isqrt() / 1000
}

/// One-way delay of the fibre between, in microseconds: 5 us per km, and 1.4 km of fibre per km of map.
pub(super) fn fibre_us(a: Spot, b: Spot) -> u64 {
    km(a, b) * 7
}

/// As documents write it.
pub(super) fn degrees(hundredths: i64) -> String {
    let sign = if hundredths < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", hundredths.unsigned_abs() / 100, hundredths.unsigned_abs() % 100)
}
