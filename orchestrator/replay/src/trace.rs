//! Jobs from a trace in four columns: when submitted, how long it ran (both in seconds), how many accelerators, and whose
//! it was.
//!
//! A job is a gang of whole devices of any model, up to eight on one node, else whole nodes of eight. It brings 10 GB for
//! each accelerator from its home site, which is the number of its row modulo the number of sites (in order of name). One
//! that is larger than every site may span four, with 1 Gbit/s between every two of them.

use crate::{
    job::{Class, Job, Workload, WorkloadError},
    time::Micros,
};
use rhumb_federation::View;
use rhumb_model::{Order, name::DatasetName};
use std::collections::BTreeMap;

/// The submission times of a trace count from here, unless told otherwise: a Thursday, midnight in UTC.
pub const EPOCH: Micros = Micros(1_767_225_600_000_000);

/// Devices of a whole node.
const NODE: u32 = 8;
/// Sites that a job larger than each of them may span.
const SPAN: u32 = 4;
const GB_PER_DEVICE: u64 = 10;

/// Columns that say whose a job is; any other fourth column names the job alone.
const OWNERS: [&str; 3] = ["vc", "user", "owner"];

/// Reads a trace as CSV with a header.
pub fn read(text: &str, view: &View) -> Result<Workload, WorkloadError> {
    let sites = view.sites.len();
    if sites == 0 {
        return Err(WorkloadError::NoSites);
    }
    let whole_nodes = |site: &rhumb_federation::ViewSite| -> u32 {
        site.whole.iter().filter(|n| n.shape.free_devices() >= NODE).map(|n| n.count).sum()
    };
    let largest = view.sites.iter().map(whole_nodes).max().unwrap_or(0);
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let row_error = |row: u64, reason: String| WorkloadError::Row { row, reason };
    let header = reader.headers().map_err(|e| row_error(0, e.to_string()))?.clone();
    let owned = header.get(3).is_some_and(|name| OWNERS.contains(&name));
    let mut workload = Workload::default();
    for (index, site) in view.sites.iter().enumerate() {
        workload.homes.insert(home(index), site.site.name.clone());
    }
    let mut classes: BTreeMap<(u32, usize), usize> = BTreeMap::new();
    let mut owners: BTreeMap<String, u32> = BTreeMap::new();
    for (index, record) in reader.records().enumerate() {
        let row = index as u64 + 1;
        let record = record.map_err(|e| row_error(row, e.to_string()))?;
        let submit = seconds(record.get(0)).map_err(|e| row_error(row, e))?;
        let runs = seconds(record.get(1)).map_err(|e| row_error(row, e))?;
        let count = record.get(2).unwrap_or_default();
        let devices: u32 = count.parse().ok().filter(|n| (1..=80_000).contains(n)).ok_or_else(|| {
            row_error(row, format!("\"{count}\" is not a number of accelerators: write one from 1 to 80000"))
        })?;
        let owner = match record.get(3) {
            Some(name) if owned => {
                let next = owners.len() as u32 + 1;
                *owners.entry(name.to_owned()).or_insert(next)
            }
            _ => 0,
        };
        let key = (devices, index % sites);
        let class = *classes.entry(key).or_insert(workload.classes.len());
        if class == workload.classes.len() {
            workload.classes.push(gang(devices, index % sites, largest));
        }
        workload.jobs.push(Job { submit: EPOCH + submit, class, runs: Some(runs), owner });
    }
    workload.sorted()
}

fn home(site: usize) -> DatasetName {
    DatasetName::new(&format!("replay-home-{site}")).expect("letters, digits and hyphens are a name")
}

fn gang(devices: u32, site: usize, largest: u32) -> Class {
    let (count, replicas) = if devices <= NODE { (devices, 1) } else { (NODE, devices.div_ceil(NODE)) };
    let spans = replicas > largest;
    let volume = u64::from(devices) * GB_PER_DEVICE;
    let between = if spans { "\n  - {from: trainer, to: trainer, rate: 1Gbps}" } else { "" };
    let text = format!(
        "name: job\nclass: training\ncomponents:\n  - {{name: trainer, replicas: {replicas}, need: {{accelerators: {{count: {count}}}}}, \
         work: {{duration: 1h}}}}\nflows:\n  - {{from: dataset/{}, to: trainer, volume: {volume}GB}}{between}\n\
         constraints: {{max_sites: {}}}\n",
        home(site),
        if spans { SPAN } else { 1 },
    );
    let mut class = Class::new(Order::read(&text).expect("the document of a trace job is sound"));
    class.guessed = true;
    class
}

/// A time in seconds with at most six decimals, up to a hundred years.
fn seconds(field: Option<&str>) -> Result<Micros, String> {
    let text = field.unwrap_or_default();
    let wrong = || format!("\"{text}\" is not a time in seconds: write a number of 0 or more");
    let value: f64 = text.parse().map_err(|_| wrong())?;
    if !(0.0..=3_155_760_000.0).contains(&value) {
        return Err(wrong());
    }
    Ok(Micros((value * 1e6).round() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_model::FederationFile;

    fn view() -> View {
        let text = "currency: CNY\ndevices: {H100: {memory: 80GiB, fp16: 1}}\nsites:\n  - {name: a, prices: {H100: 36 CNY}, nodes: [{count: 2, accelerators: {model: H100, count: 8}}]}\n  - {name: b, prices: {H100: 36 CNY}, nodes: [{accelerators: {model: H100, count: 8}}]}\n";
        View::from_file(&FederationFile::read(text).unwrap()).unwrap()
    }

    #[test]
    fn a_row_is_a_gang_with_its_data_at_home() {
        let text = "submit_s,duration_s,num_gpus,vc\n10,60,1,x\n11,5.5,12,y\n12,60,20,x\n13,60,1,y\n";
        let workload = read(text, &view()).unwrap();
        let class = |job: usize| &workload.classes[workload.jobs[job].class];
        assert_eq!(class(0).parts, [Part { devices: 1, replicas: 1 }]);
        // twelve are two whole nodes, but bring the data of twelve
        assert_eq!(class(1).parts, [Part { devices: 8, replicas: 2 }]);
        assert_eq!(class(1).order.flows[0].volume.unwrap().bytes(), 120_000_000_000);
        assert_eq!(class(1).order.flows[0].from.to_string(), "dataset/replay-home-1");
        // twenty are larger than each site
        assert_eq!((class(1).max_sites, class(2).max_sites, class(2).order.flows.len()), (1, 4, 2));
        assert_eq!(workload.jobs[1].runs, Some(Micros(5_500_000)));
        assert_eq!(workload.jobs[0].owner, workload.jobs[2].owner);
        assert_ne!(workload.jobs[0].owner, workload.jobs[1].owner);
        // the same size from another home is another class
        assert_ne!(workload.jobs[0].class, workload.jobs[3].class);
    }

    use crate::job::Part;

    #[test]
    fn a_row_that_cannot_be_read_is_named() {
        for (row, word) in
            [("1,2,0", "accelerators"), ("1,2,x", "accelerators"), ("-1,2,1", "seconds"), ("1,,1", "seconds")]
        {
            let error = read(&format!("submit_s,duration_s,num_gpus\n{row}\n"), &view()).unwrap_err().to_string();
            assert!(error.contains("row 1") && error.contains(word), "{error}");
        }
        assert!(matches!(read("submit_s,duration_s,num_gpus\n", &view()), Err(WorkloadError::Empty)));
    }
}
