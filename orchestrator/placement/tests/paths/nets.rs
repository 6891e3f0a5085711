//! Public nets with demand matrices, against the optimum that a linear program found.

use rhumb_placement::paths::{
    matrix::{SplitEffort, UnsplitEffort, split, unsplit},
    wan::{self, Net, WanError},
};
use std::fs;

fn read(folder: &std::path::Path, name: &str) -> Result<Net, WanError<std::io::Error>> {
    wan::read(name, |file| public_data::text(folder, file))
}

/// Every net of the reference table: within 2 % of the optimum where demands may split; on single paths at most 8 % above
/// what no routing can avoid.
#[test]
fn nets_are_routed_within_the_bars() {
    let Some(folder) = public_data::folder("wan") else { return };
    let table = fs::read_to_string(folder.join("reference_mlu.csv")).unwrap();
    let mut nets = 0;
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let optimum: f64 = fields[5].parse().unwrap();
        let matrix = read(&folder, fields[0]).unwrap().matrix;
        assert_eq!(matrix.demands(), fields[3].parse::<usize>().unwrap(), "{}", fields[0]);
        assert!(matrix.unrouted().is_empty());
        let many = split(&matrix, SplitEffort::default());
        let found = many.max_utilisation.ratio();
        assert!(found <= optimum * 1.02, "{}: {found} split, {optimum} at best", fields[0]);
        // the table has seven digits
        assert!(many.lower_bound.ratio() <= optimum * 1.000_001, "{}: {:?}", fields[0], many.lower_bound);
        assert!(found <= many.lower_bound.ratio() * 1.001, "{}: {found} for {:?}", fields[0], many.lower_bound);
        let one = unsplit(&matrix, UnsplitEffort { responses: 2_000, ..UnsplitEffort::default() });
        let found = one.max_utilisation.ratio();
        let bar = 1.08 * matrix.largest_demand_over_widest_path().ratio().max(optimum);
        assert!(found <= bar, "{}: {found} on single paths, {bar} at most", fields[0]);
        nets += 1;
    }
    assert!(nets > 20, "{nets}");
}

#[test]
fn teavar_nets_are_read_with_their_decimals() {
    let Some(folder) = public_data::folder("wan") else { return };
    for (name, points) in [("teavar/B4", 12), ("teavar/Abilene", 12), ("teavar/B4/24", 12)] {
        let matrix = read(&folder, name).unwrap().matrix;
        assert_eq!(matrix.demands(), points * points, "{name}");
        assert!(matrix.unrouted().is_empty());
        let routing = split(&matrix, SplitEffort::default());
        assert!(routing.max_utilisation.ratio() <= routing.lower_bound.ratio() * 1.001, "{name}");
    }
    assert!(read(&folder, "teavar/B4/25").unwrap_err().to_string().contains("24 matrices"));
}

const NODES: &str = "net,id,name,lon,lat\nsmall,0,A,0,0\nsmall,1,B,0,0\n";
const ARCS: &str = "net,from,to,capacity_kbps,delay_us,igp_weight\nsmall,0,1,100,1,1\nsmall,1,0,100,1,1\n";

fn small(name: &str, arcs: &str, demands: &str) -> Result<Net, String> {
    wan::read(name, |file| -> Result<Option<String>, std::convert::Infallible> {
        Ok(match file {
            "zoo_nodes.csv" => Some(NODES.to_owned()),
            "zoo_arcs.csv" => Some(arcs.to_owned()),
            "zoo_demands.csv" if !demands.is_empty() => Some(demands.to_owned()),
            _ => None,
        })
    })
    .map_err(|e| e.to_string())
}

#[test]
fn what_is_wrong_in_a_file_is_named_by_line() {
    let demands = "net,from,to,kbps\nsmall,0,1,50\n";
    assert_eq!(small("zoo/small", ARCS, demands).unwrap().demands.len(), 1);
    let cases = [
        ("zoo/smell", ARCS, demands, "no net is called \"zoo/smell\": the nearest known is \"zoo/small\""),
        ("zoo/SMALL", ARCS, demands, "the nearest known is \"zoo/small\""),
        ("teavar/b", ARCS, demands, "the nearest known is \"teavar/B4\""),
        ("small", ARCS, demands, "write sndlib/NET, zoo/NET or teavar/NET"),
        ("zoo/", ARCS, demands, "names no net"),
        ("teavar/abil", ARCS, demands, "use one of teavar/Abilene"),
        ("teavar/B5", ARCS, demands, "the nearest known is \"teavar/B4\""),
        ("teavar/B4/0", ARCS, demands, "names no net"),
        ("zoo/small", ARCS, "net,from,to,kbps\nsmall,0,1,50\nsmall,0,7,50\n", "zoo_demands.csv line 3"),
        ("zoo/small", ARCS, "net,from,to,kbps\nsmall,0,1,-5\n", "\"-5\" is no whole number from 0 up"),
        ("zoo/small", ARCS, "net,from,to,kbps\nsmall,0,1,NaN\n", "line 2"),
        ("zoo/small", ARCS, "net,from,to,kbps\nsmall,0\n", "2 fields are too few"),
        ("zoo/small", "h\nsmall,0,1,0\n", demands, "capacity of 0"),
        ("zoo/small", "h\n\nsmall,0,x,1\n", demands, "zoo_arcs.csv line 3 is not understood: \"x\" is no point"),
        ("zoo/small", ARCS, "", "no such file"),
    ];
    for (name, arcs, demands, part) in cases {
        let error = small(name, arcs, demands).unwrap_err();
        assert!(error.contains(part), "{name}: {error}");
    }
}
