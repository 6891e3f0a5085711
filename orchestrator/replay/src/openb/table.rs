//! The benchmark's files.

use crate::scoring::{Demand, Free, MAX_DEVICES, Models, Need, WHOLE};
use std::collections::BTreeMap;

/// The cluster: `sn,cpu_milli,memory_mib,gpu,model`.
#[derive(Debug, Clone)]
pub struct Nodes {
    pub(super) names: Vec<String>,
    pub(super) rows: Vec<Free>,
    pub(super) models: Vec<String>,
}

/// The pod list: `name,cpu_milli,memory_mib,num_gpu,gpu_milli` and `gpu_spec` where it has that.
#[derive(Debug, Clone)]
pub struct Pods {
    /// The different needs.
    pub(super) classes: Vec<Need>,
    /// The class of each row.
    pub(super) rows: Vec<usize>,
}

/// By seed, the pods' rows in the order they arrive: a column `seedN` each, empty below its end.
#[derive(Debug, Clone)]
pub struct Arrivals(pub(super) BTreeMap<u64, Vec<u32>>);

/// By seed, the rank of each node's name: a column `seedN` each.
#[derive(Debug, Clone, Default)]
pub struct Ranks(pub(super) BTreeMap<u64, Vec<u32>>);

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TableError {
    #[error("cannot read {file} as CSV at line {line}: {problem}; give each row as many fields as the header")]
    Csv { file: String, line: u64, problem: String },
    #[error("{file} has no column {column}; its header must name it")]
    Column { file: String, column: String },
    #[error("{file} line {line}, column {column}: {value:?} is not {wanted}")]
    Value { file: String, line: u64, column: String, value: String, wanted: String },
    #[error("{file} has no rows; give it at least one below the header")]
    Empty { file: String },
    #[error("{file} ranks {found} nodes for seed {seed} and there are {wanted}; give one rank a node")]
    Ranks { file: String, seed: u64, found: usize, wanted: usize },
    #[error("{file} has devices of more than {} models; merge some", Models::MAX)]
    Models { file: String },
}

impl Nodes {
    /// `file` is the name that errors give.
    pub fn read(file: &str, bytes: &[u8]) -> Result<Self, TableError> {
        let table = Table::read(file, bytes)?;
        let [name, cpu, memory, devices, model] =
            ["sn", "cpu_milli", "memory_mib", "gpu", "model"].map(|column| table.column(column));
        let (name, cpu, memory, devices, model) = (name?, cpu?, memory?, devices?, model?);
        let mut nodes = Self { names: Vec::new(), rows: Vec::new(), models: Vec::new() };
        for row in 0..table.rows.len() {
            let called = table.text(row, model);
            let number = nodes.models.iter().position(|m| m == called).unwrap_or_else(|| {
                nodes.models.push(called.to_owned());
                nodes.models.len() - 1
            });
            if number >= Models::MAX {
                return Err(TableError::Models { file: file.to_owned() });
            }
            nodes.names.push(table.text(row, name).to_owned());
            nodes.rows.push(Free::empty(
                table.number(row, cpu, u32::MAX, "thousandths of a core, such as 64000")?,
                table.number(row, memory, u32::MAX, "MiB of memory, such as 262144")?,
                number as u8,
                table.number(row, devices, MAX_DEVICES as u32, "a count of devices from 0 to 16")? as u8,
            ));
        }
        Ok(nodes)
    }
}

impl Pods {
    /// `nodes` tells which models there are; a pod that asks for others only fits nowhere.
    pub fn read(file: &str, bytes: &[u8], nodes: &Nodes) -> Result<Self, TableError> {
        let table = Table::read(file, bytes)?;
        let [cpu, memory, devices, milli] =
            ["cpu_milli", "memory_mib", "num_gpu", "gpu_milli"].map(|column| table.column(column));
        let (cpu, memory, devices, milli) = (cpu?, memory?, devices?, milli?);
        let spec = table.column("gpu_spec").ok();
        let mut numbers = BTreeMap::new();
        let mut pods = Self { classes: Vec::new(), rows: Vec::new() };
        for row in 0..table.rows.len() {
            let count = table.number(row, devices, MAX_DEVICES as u32, "a count of devices from 0 to 16")? as u8;
            let most = u32::from(WHOLE);
            let each = table.number(row, milli, most, "thousandths of a device from 0 to 1000")? as u16;
            if (count > 1 && each < WHOLE) || (count == 1 && each == 0) {
                let wanted = "1000 for several devices, 1 to 1000 for one";
                return Err(table.refused(row, milli, wanted));
            }
            let need = Need {
                cpu_milli: table.number(row, cpu, u32::MAX, "thousandths of a core, such as 4000")?,
                memory_mib: table.number(row, memory, u32::MAX, "MiB of memory, such as 15258")?,
                devices: count,
                device_milli: if count == 0 { 0 } else { each },
                models: spec.map_or(Models::ANY, |spec| models(table.text(row, spec), nodes)),
            };
            let next = pods.classes.len();
            let class = *numbers.entry(need).or_insert(next);
            if class == next {
                pods.classes.push(need);
            }
            pods.rows.push(class);
        }
        Ok(pods)
    }
}

impl Pods {
    /// The mix of the list.
    pub fn demand(&self) -> Demand {
        Demand::of(self.rows.iter().map(|class| self.classes[*class]))
    }
}

/// `A|B`, or any where empty.
fn models(spec: &str, nodes: &Nodes) -> Models {
    if spec.is_empty() {
        return Models::ANY;
    }
    let known = |model: &str| nodes.models.iter().position(|known| known == model);
    Models::of(spec.split('|').filter_map(|model| known(model.trim())).map(|number| number as u8))
}

impl Arrivals {
    pub fn read(file: &str, bytes: &[u8], pods: &Pods) -> Result<Self, TableError> {
        let last = pods.rows.len() as u32 - 1;
        let wanted = format!("the row of a pod from 0 to {last}");
        Table::read(file, bytes)?.seeds(last, &wanted).map(Self)
    }
}

impl Ranks {
    pub fn read(file: &str, bytes: &[u8], nodes: &Nodes) -> Result<Self, TableError> {
        let seeds = Table::read(file, bytes)?.seeds(u32::MAX, "a rank, 0 for the first name")?;
        let wanted = nodes.rows.len();
        match seeds.iter().find(|(_, ranks)| ranks.len() != wanted) {
            None => Ok(Self(seeds)),
            Some((seed, ranks)) => {
                Err(TableError::Ranks { file: file.to_owned(), seed: *seed, found: ranks.len(), wanted })
            }
        }
    }
}

/// A CSV text with a header.
struct Table<'a> {
    file: &'a str,
    header: csv::StringRecord,
    rows: Vec<csv::StringRecord>,
}

impl<'a> Table<'a> {
    fn read(file: &'a str, bytes: &[u8]) -> Result<Self, TableError> {
        let failed = |e: &csv::Error| TableError::Csv {
            file: file.to_owned(),
            line: e.position().map_or(1, csv::Position::line),
            problem: match e.kind() {
                csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                    format!("{len} fields, the header has {expected_len}")
                }
                csv::ErrorKind::Utf8 { err, .. } => format!("not UTF-8 text ({err})"),
                _ => "not a CSV row".to_owned(),
            },
        };
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes);
        let header = reader.headers().map_err(|e| failed(&e))?.clone();
        let rows: Vec<_> = reader.records().collect::<Result<_, _>>().map_err(|e| failed(&e))?;
        if rows.is_empty() {
            return Err(TableError::Empty { file: file.to_owned() });
        }
        Ok(Self { file, header, rows })
    }

    fn column(&self, name: &str) -> Result<usize, TableError> {
        self.header
            .iter()
            .position(|column| column == name)
            .ok_or_else(|| TableError::Column { file: self.file.to_owned(), column: name.to_owned() })
    }

    fn text(&self, row: usize, column: usize) -> &str {
        self.rows[row].get(column).unwrap_or_default()
    }

    fn number(&self, row: usize, column: usize, most: u32, wanted: &str) -> Result<u32, TableError> {
        let value = self.text(row, column).parse::<u32>().ok().filter(|value| *value <= most);
        value.ok_or_else(|| self.refused(row, column, wanted))
    }

    fn refused(&self, row: usize, column: usize, wanted: &str) -> TableError {
        TableError::Value {
            file: self.file.to_owned(),
            line: self.rows[row].position().map_or(0, csv::Position::line),
            column: self.header.get(column).unwrap_or_default().to_owned(),
            value: self.text(row, column).to_owned(),
            wanted: wanted.to_owned(),
        }
    }

    /// The columns `seedN`, each down to its first empty field.
    fn seeds(&self, most: u32, wanted: &str) -> Result<BTreeMap<u64, Vec<u32>>, TableError> {
        let mut seeds = BTreeMap::new();
        for (column, name) in self.header.iter().enumerate() {
            let Some(seed) = name.strip_prefix("seed").and_then(|seed| seed.parse::<u64>().ok()) else { continue };
            let filled = (0..self.rows.len()).take_while(|row| !self.text(*row, column).is_empty());
            let values: Result<Vec<u32>, _> = filled.map(|row| self.number(row, column, most, wanted)).collect();
            seeds.insert(seed, values?);
        }
        if seeds.is_empty() {
            return Err(TableError::Column { file: self.file.to_owned(), column: "seedN, such as seed42".to_owned() });
        }
        Ok(seeds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\na,64000,1024,2,P100\nb,8000,512,8,T4\n";

    fn nodes() -> Nodes {
        Nodes::read("nodes.csv", NODES.as_bytes()).unwrap()
    }

    #[test]
    fn pods_of_one_kind_share_a_class_and_unknown_models_fit_nowhere() {
        let text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n\
                    p,1000,1,1,500,\nq,1000,1,1,500,\nr,1000,1,0,0,T4|P100\ns,1000,1,2,1000,H100\n";
        let pods = Pods::read("pods.csv", text.as_bytes(), &nodes()).unwrap();
        assert_eq!(pods.rows, [0, 0, 1, 2]);
        assert_eq!(pods.classes[1].models, Models::of([0, 1]));
        assert!(nodes().rows.iter().all(|node| !node.fits(&pods.classes[2]) && node.fits(&pods.classes[1])));
    }

    #[test]
    fn a_bad_row_is_named_with_its_file_line_column_value_and_remedy() {
        let shown = |text: &str| Nodes::read("n.csv", text.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            shown(&NODES.replace("8000,", "8k,")),
            "n.csv line 3, column cpu_milli: \"8k\" is not thousandths of a core, such as 64000"
        );
        assert_eq!(
            shown("sn,cpu_milli,memory_mib,gpu,model\na,1,1,17,T4\n"),
            "n.csv line 2, column gpu: \"17\" is not a count of devices from 0 to 16"
        );
        assert_eq!(
            shown("sn,cpu_milli,memory_mib,gpu\na,1,1,1\n"),
            "n.csv has no column model; its header must name it"
        );
        assert_eq!(shown("sn\n"), "n.csv has no rows; give it at least one below the header");
        assert!(shown(&format!("{NODES}c,1\n")).contains("line 4: 2 fields, the header has 5"));
        let pods = |row: &str| {
            let text = format!("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n{row}\n");
            Pods::read("p.csv", text.as_bytes(), &nodes()).unwrap_err().to_string()
        };
        assert_eq!(
            pods("p,1,1,2,500"),
            "p.csv line 2, column gpu_milli: \"500\" is not 1000 for several devices, 1 to 1000 for one"
        );
    }

    #[test]
    fn seeds_end_at_their_first_empty_field() {
        let pods = Pods::read("p", b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,0,0\nq,1,1,0,0\n", &nodes());
        let pods = pods.unwrap();
        let arrivals = Arrivals::read("a", b"seed1,seed2\n0,1\n1,\n", &pods).unwrap();
        assert_eq!(arrivals.0, BTreeMap::from([(1, vec![0, 1]), (2, vec![1])]));
        let far = Arrivals::read("a", b"seed1\n2\n", &pods).unwrap_err().to_string();
        assert_eq!(far, "a line 2, column seed1: \"2\" is not the row of a pod from 0 to 1");
        let short = Ranks::read("r", b"seed1\n0\n", &nodes()).unwrap_err().to_string();
        assert_eq!(short, "r ranks 1 nodes for seed 1 and there are 2; give one rank a node");
    }
}
