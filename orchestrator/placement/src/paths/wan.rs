//! Public demand matrices as text: SNDlib nets, Topology Zoo nets with capacities, and TEAVAR's.
//!
//! A net has a name such as `sndlib/abilene`, `zoo/Geant2012` or `teavar/B4` (`teavar/B4/7`: the seventh of its matrices,
//! the first where none is named). The caller reads the files; this knows which, and what stands in them:
//! - `sndlib_nodes.csv` (net,id,...), `sndlib_links.csv` (net,a,b,...: capacity 1 each way), `sndlib_demands.csv`
//!   (net,from,to,demand: one way);
//! - `zoo_nodes.csv` (net,id,...), `zoo_arcs.csv` (net,from,to,capacity_kbps,...: one way), `zoo_demands.csv`
//!   (net,from,to,kbps);
//! - `teavar_NET_topology.txt` (to, from, capacity by column, below a line of titles), `teavar_NET_demand_first24.txt` (one
//!   matrix a line, row by row, from the row's point to the column's).

use super::matrix::{Arc, Demand, Matrix, MatrixError, Traffic};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, thiserror::Error)]
pub enum WanError<E> {
    #[error("\"{name}\" names no net: write sndlib/NET, zoo/NET or teavar/NET, such as sndlib/abilene")]
    Form { name: String },
    #[error("no net is called \"{name}\": {nearest}")]
    Unknown { name: String, nearest: String },
    #[error("{file} line {line} is not understood: {reason}")]
    Row { file: String, line: usize, reason: String },
    #[error("net {name} cannot be routed: {source}")]
    Matrix { name: String, source: MatrixError },
    #[error("{0}")]
    Read(E),
}

/// A net as read: arcs and demands in the order of the files, a link's way there before its way back.
#[derive(Debug, Clone)]
pub struct Net {
    pub arcs: Vec<Arc>,
    pub demands: Vec<Demand>,
    pub matrix: Matrix,
}

/// Reads a net. `read` gives the text of a file by its plain name, and nothing where there is no such file.
pub fn read<E>(name: &str, mut read: impl FnMut(&str) -> Result<Option<String>, E>) -> Result<Net, WanError<E>> {
    let (points, arcs, demands) = match name.split_once('/') {
        Some((family @ ("sndlib" | "zoo"), net)) if !net.is_empty() => tables(family, net, &mut read)?,
        Some(("teavar", net)) if !net.is_empty() => teavar(net, &mut read)?,
        _ => return Err(WanError::Form { name: name.to_owned() }),
    };
    let matrix = Matrix::new(&points, &arcs, &demands);
    let matrix = matrix.map_err(|source| WanError::Matrix { name: name.to_owned(), source })?;
    Ok(Net { arcs, demands, matrix })
}

type Parts = (Vec<String>, Vec<Arc>, Vec<Demand>);

fn tables<E>(
    family: &str,
    net: &str,
    read: &mut impl FnMut(&str) -> Result<Option<String>, E>,
) -> Result<Parts, WanError<E>> {
    let nodes = Table::open(format!("{family}_nodes.csv"), read)?;
    let points: Vec<String> = nodes.rows(net, 2)?.into_iter().map(|row| row.field(1).to_owned()).collect();
    if points.is_empty() {
        let known: BTreeSet<&str> = nodes.lines().filter_map(|(_, line)| line.split(',').next()).collect();
        let known: Vec<String> = known.into_iter().map(|k| format!("{family}/{k}")).collect();
        let name = format!("{family}/{net}");
        return Err(WanError::Unknown { nearest: near(&name, &known), name });
    }
    let known: BTreeSet<&str> = points.iter().map(String::as_str).collect();
    let links = Table::open(format!("{family}_{}.csv", if family == "zoo" { "arcs" } else { "links" }), read)?;
    let mut arcs = Vec::new();
    for row in links.rows(net, 4)? {
        let (from, to) = (row.point(1, &known)?, row.point(2, &known)?);
        if family == "zoo" {
            arcs.push(Arc { from, to, capacity: row.amount(3)? });
        } else {
            arcs.push(Arc { from: from.clone(), to: to.clone(), capacity: Traffic(1) });
            arcs.push(Arc { from: to, to: from, capacity: Traffic(1) });
        }
    }
    let mut demands = Vec::new();
    let table = Table::open(format!("{family}_demands.csv"), read)?;
    for row in table.rows(net, 4)? {
        demands.push(Demand { from: row.point(1, &known)?, to: row.point(2, &known)?, amount: row.amount(3)? });
    }
    Ok((points, arcs, demands))
}

/// TEAVAR's matrices have decimals: amounts and capacities are kept in thousandths.
fn teavar<E>(net: &str, read: &mut impl FnMut(&str) -> Result<Option<String>, E>) -> Result<Parts, WanError<E>> {
    let (net, matrix) = match net.split_once('/') {
        Some((net, matrix)) => (net, matrix.parse::<usize>().ok().filter(|m| *m > 0)),
        None => (net, Some(1)),
    };
    let Some(matrix) = matrix else {
        return Err(WanError::Form { name: format!("teavar/{net}/...") });
    };
    let file = format!("teavar_{net}_topology.txt");
    if read(&file).map_err(WanError::Read)?.is_none() {
        let known = ["teavar/Abilene".to_owned(), "teavar/B4".to_owned()];
        let name = format!("teavar/{net}");
        return Err(WanError::Unknown { nearest: near(&name, &known), name });
    }
    let topology = Table::open(file, read)?;
    let (mut arcs, mut points) = (Vec::new(), BTreeMap::new());
    for row in topology.words() {
        let ends = [row.whole(1)?, row.whole(0)?];
        points.extend(ends.map(|end| (end, end.to_string())));
        let [from, to] = ends.map(|end| end.to_string());
        arcs.push(Arc { from, to, capacity: row.thousandths(2)? });
    }
    let table = Table::open(format!("teavar_{net}_demand_first24.txt"), read)?;
    let Some((number, line)) = table.all().nth(matrix - 1) else {
        let name = format!("teavar/{net}/{matrix}");
        return Err(WanError::Unknown {
            name,
            nearest: format!("{} has {} matrices", table.file, table.all().count()),
        });
    };
    let row = Row { file: &table.file, line: number, fields: line.split_whitespace().collect() };
    let size = points.len();
    if row.fields.len() != size * size {
        return Err(row.wrong(format!("{} figures are no matrix of {size} points", row.fields.len())));
    }
    let names: Vec<&String> = points.values().collect();
    let mut demands = Vec::new();
    for (i, from) in names.iter().enumerate() {
        for (j, to) in names.iter().enumerate() {
            let amount = row.thousandths(i * size + j)?;
            demands.push(Demand { from: (*from).clone(), to: (*to).clone(), amount });
        }
    }
    Ok((points.into_values().collect(), arcs, demands))
}

/// The names that the one asked for begins or is part of; else the nearest.
fn near(name: &str, known: &[String]) -> String {
    let asked = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    let alike = known.iter().filter(|k| k.to_lowercase().rsplit('/').next().is_some_and(|k| k.contains(&asked)));
    let alike: Vec<&str> = alike.map(String::as_str).collect();
    if alike.is_empty() || alike.len() == known.len() {
        return rhumb_model::document::nearest(name, known);
    }
    format!("use one of {}", alike.join(", "))
}

struct Table {
    file: String,
    text: String,
}

struct Row<'a> {
    file: &'a str,
    line: usize,
    fields: Vec<&'a str>,
}

impl Table {
    fn open<E>(file: String, read: &mut impl FnMut(&str) -> Result<Option<String>, E>) -> Result<Self, WanError<E>> {
        let text = read(&file).map_err(WanError::Read)?;
        let Some(text) = text else {
            let reason = "there is no such file beside the others: add it, plain or as .gz".to_owned();
            return Err(WanError::Row { file, line: 0, reason });
        };
        Ok(Self { file, text })
    }

    /// Lines with something in them, counted from 1.
    fn all(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines()).map(|(n, l)| (n, l.trim())).filter(|(_, l)| !l.is_empty())
    }

    /// Below the titles.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.all().skip(1)
    }

    /// Rows of one net, which have at least so many fields.
    fn rows<E>(&self, net: &str, fields: usize) -> Result<Vec<Row<'_>>, WanError<E>> {
        let mut rows = Vec::new();
        for (line, text) in self.lines() {
            let row = Row { file: &self.file, line, fields: text.split(',').map(str::trim).collect() };
            if row.fields[0] != net {
                continue;
            }
            if row.fields.len() < fields {
                return Err(row.wrong(format!("{} fields are too few: write {fields}", row.fields.len())));
            }
            rows.push(row);
        }
        Ok(rows)
    }

    fn words(&self) -> impl Iterator<Item = Row<'_>> {
        self.lines().map(|(line, text)| Row { file: &self.file, line, fields: text.split_whitespace().collect() })
    }
}

impl Row<'_> {
    fn wrong<E>(&self, reason: String) -> WanError<E> {
        WanError::Row { file: self.file.to_owned(), line: self.line, reason }
    }

    fn field(&self, index: usize) -> &str {
        self.fields.get(index).copied().unwrap_or_default()
    }

    fn point<E>(&self, index: usize, known: &BTreeSet<&str>) -> Result<String, WanError<E>> {
        let name = self.field(index);
        if known.contains(name) {
            return Ok(name.to_owned());
        }
        Err(self.wrong(format!("\"{}\" is no point of the net: correct it, or add the point", name.escape_debug())))
    }

    fn whole<E>(&self, index: usize) -> Result<u64, WanError<E>> {
        let text = self.field(index);
        text.parse().map_err(|_| self.wrong(format!("\"{}\" is no whole number from 0 up", text.escape_debug())))
    }

    fn amount<E>(&self, index: usize) -> Result<Traffic, WanError<E>> {
        self.whole(index).map(Traffic)
    }

    /// A decimal from 0 up, in thousandths rounded up.
    fn thousandths<E>(&self, index: usize) -> Result<Traffic, WanError<E>> {
        let text = self.field(index);
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
        let thousandths = format!("{:0<3}", part.get(..part.len().min(3)).unwrap_or_default());
        let more = u64::from(part.bytes().skip(3).any(|b| b != b'0'));
        let value = (digits(whole) && digits(part)).then(|| {
            whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(thousandths.parse::<u64>().ok()? + more)
        });
        value
            .flatten()
            .map(Traffic)
            .ok_or_else(|| self.wrong(format!("\"{}\" is no number from 0 up, or too large", text.escape_debug())))
    }
}
