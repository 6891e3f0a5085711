//! `rhumb paths`: a whole demand matrix routed as one batch, offline.

use crate::{
    exit::{CliError, Exit},
    files,
    output::{Output, table},
};
use clap::Args;
use rhumb_model::document;
use rhumb_placement::paths::{
    matrix::{Routing, SplitEffort, UnsplitEffort, split, unsplit},
    wan::{self, Net, WanError},
};
use serde_json::{Value, json};
use std::{
    fmt::Write,
    path::{Path, PathBuf},
    time::Instant,
};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  rhumb paths --wan data/wan --net sndlib/abilene\n  \
                        rhumb paths --wan data/wan --net zoo/Geant2012 --split --routes routes.csv -o json\n\n\
                        DIR holds {sndlib_nodes,sndlib_links,sndlib_demands}.csv, {zoo_nodes,zoo_arcs,zoo_demands}.csv, and\n\
                        teavar_NET_topology.txt with teavar_NET_demand_first24.txt, each plain or as .gz.\n\
                        Prints JSON where standard output is no terminal.")]
pub struct PathsArgs {
    /// Folder of networks with their demands
    #[arg(long, value_name = "DIR")]
    wan: PathBuf,
    /// sndlib/NET, zoo/NET or teavar/NET (teavar/NET/7: the seventh of its matrices)
    #[arg(long, value_name = "NAME")]
    net: String,
    /// Let a demand use several paths
    #[arg(long)]
    split: bool,
    /// Of the search on single paths
    #[arg(long, default_value_t = 1, value_name = "N", conflicts_with = "split")]
    seed: u64,
    /// Write every path with what it carries, as CSV
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
}

pub fn main(args: &PathsArgs, output: Output) -> Result<Exit, CliError> {
    let output = output.or_json_for_programs();
    if !args.wan.is_dir() {
        return Err(CliError::Usage(format!("{} is no folder: name the folder of networks", args.wan.display())));
    }
    let read = |file: &str| files::unpacked(&args.wan.join(file), document::MAX_LARGE_BYTES);
    let net = wan::read(&args.net, read).map_err(|error| match error {
        WanError::Read(error) => error,
        other => CliError::Usage(other.to_string()),
    })?;
    let begun = Instant::now();
    let routing = if args.split {
        split(&net.matrix, SplitEffort::default())
    } else {
        unsplit(&net.matrix, UnsplitEffort { seed: args.seed, ..UnsplitEffort::default() })
    };
    let wall_ms = begun.elapsed().as_micros() as f64 / 1e3;
    if let Some(path) = &args.routes {
        write(path, &routes(&net, &routing))?;
    }
    let value = json!({
        "net": args.net,
        "max_link_utilisation": routing.max_utilisation.ratio(),
        "lower_bound": routing.lower_bound.ratio(),
        "largest_demand_over_widest_path": net.matrix.largest_demand_over_widest_path().ratio(),
        "demands": net.matrix.demands(),
        "unrouted": net.matrix.unrouted().len(),
        "rounds": routing.rounds,
        "wall_ms": wall_ms,
    });
    output.show(&value, |_| shown(&value))?;
    Ok(Exit::Done)
}

fn shown(value: &Value) -> String {
    let number = |key: &str| value[key].as_f64().map_or_else(|| "-".into(), |n| format!("{n:.4}"));
    let row = vec![
        value["net"].as_str().unwrap_or("-").to_owned(),
        value["demands"].to_string(),
        value["unrouted"].to_string(),
        number("max_link_utilisation"),
        number("lower_bound"),
        number("largest_demand_over_widest_path"),
        value["wall_ms"].as_f64().map_or_else(|| "-".into(), |n| format!("{n:.1} ms")),
    ];
    table(&["NET", "DEMANDS>", "UNROUTED>", "FULLEST LINK>", "AT LEAST>", "LARGEST DEMAND>", "TIME>"], [row])
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    std::fs::write(path, text).map_err(|e| CliError::Failed(format!("cannot write {}: {e}", path.display())))
}

/// `demand,from,to,share,arcs`: the demand by its row in the net, the part of it on this path, and the path's arcs by their
/// row in the net (where links go both ways: twice the row, plus 1 for the way back).
fn routes(net: &Net, routing: &Routing) -> String {
    let mut text = "demand,from,to,share,arcs\n".to_owned();
    for (i, (demand, shares)) in net.demands.iter().zip(&routing.paths).enumerate() {
        for share in shares {
            let part = share.carried as f64 / share.parts as f64 / demand.amount.0 as f64;
            let arcs: Vec<String> = share.arcs.iter().map(ToString::to_string).collect();
            // a string takes whatever is written
            let _ = writeln!(text, "{i},{},{},{part},{}", demand.from, demand.to, arcs.join(" "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            ("sndlib_nodes.csv", "net,id,name,lon,lat\ntri,0,a,0,0\ntri,1,b,0,0\ntri,2,c,0,0\n"),
            ("sndlib_links.csv", "net,a,b,dist_km\ntri,0,1,1\ntri,1,2,1\ntri,0,2,1\n"),
            ("sndlib_demands.csv", "net,from,to,demand\ntri,0,1,10\ntri,0,2,2\n"),
        ];
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    fn args(folder: &Path, net: &str, split: bool) -> PathsArgs {
        let routes = Some(folder.join("routes.csv"));
        PathsArgs { wan: folder.to_owned(), net: net.to_owned(), split, seed: 1, routes }
    }

    #[test]
    fn routes_are_written_with_their_shares() {
        let folder = folder();
        let lines = |split| {
            main(&args(folder.path(), "sndlib/tri", split), Output::plain(Format::Json)).unwrap();
            let text = std::fs::read_to_string(folder.path().join("routes.csv")).unwrap();
            text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(false), ["0,0,1,1,0", "1,0,2,1,4"]);
        // 6 over each way: the first demand sends 4 of its 10 around
        let split = lines(true);
        assert_eq!(split.len(), 3, "{split:?}");
        let around: f64 =
            split.iter().find(|l| l.ends_with(",4 3")).unwrap().split(',').nth(3).unwrap().parse().unwrap();
        assert!((around - 0.4).abs() < 1e-3, "{split:?}");
    }

    #[test]
    fn an_unknown_net_or_folder_is_wrong_usage() {
        let folder = folder();
        for (path, net, part) in [
            (folder.path(), "sndlib/try", "the nearest known is \"sndlib/tri\""),
            (folder.path(), "tri", "sndlib/NET"),
            (folder.path(), "zoo/tri", "no such file"),
            (Path::new("/no/such/folder"), "sndlib/tri", "is no folder"),
        ] {
            let error = main(&args(path, net, true), Output::plain(Format::Json)).unwrap_err();
            assert_eq!(error.exit(), Exit::Usage);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
