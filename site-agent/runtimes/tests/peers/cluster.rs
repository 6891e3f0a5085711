//! A whole cluster under load: many orders, others' jobs among them, and what is free by our word and by Slurm's.

use rhumb_model::{Bytes, Cores, NodeName};
use rhumb_runtimes::{AnyRuntime, DeviceFamily, How, Listing, Observed, Runtime, Work};
use rhumb_wire::report::AssignmentKey;
use runtime_contract::lab::{DEVICES, NODES, SlurmLab};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use uuid::Uuid;

const ORDERS: usize = 200;
/// Somebody else's job is submitted with every so many orders.
const EVERY: usize = 10;
const PATIENCE: Duration = Duration::from_mins(9);

/// Devices in use by node, by Slurm's own list of jobs.
fn used_by_slurm(lab: &SlurmLab) -> BTreeMap<String, u32> {
    let list = lab.command("squeue", &["-h", "-t", "R,CG,CF,S", "-o", "%N|%b"]);
    let mut used: BTreeMap<String, u32> = BTreeMap::new();
    for line in list.lines() {
        let (node, gres) = line.split_once('|').unwrap();
        let count: u32 = gres.rsplit(':').next().unwrap().parse().unwrap_or(0);
        *used.entry(node.to_owned()).or_default() += count;
    }
    used.retain(|_, count| *count > 0);
    used
}

/// The same by the runtime: what others hold, and what our own jobs hold.
async fn used_by_us(runtime: &mut AnyRuntime) -> BTreeMap<String, u32> {
    let listing: Listing = runtime.list_owned().await.unwrap();
    let mut used: BTreeMap<String, u32> = BTreeMap::new();
    for held in listing.unmanaged.iter().chain(&listing.held) {
        *used.entry(held.node.to_string()).or_default() += held.count.expect("every job here can be read");
    }
    used.retain(|_, count| *count > 0);
    used
}

/// For a while on one device, which it names.
fn work(node: &str, number: usize) -> Work {
    let script = format!("sleep 0.{}; echo $CUDA_VISIBLE_DEVICES", number % 9 + 1);
    let mut work = Work::bare(NodeName::new(node).unwrap(), ["sh", "-c", &script].map(str::to_owned).to_vec());
    work.env.insert("PATH".into(), "/usr/bin:/bin".into());
    work.devices = BTreeSet::from([0]);
    work.family = Some(DeviceFamily::Cuda);
    (work.cpu, work.memory) = (Cores::from_milli(1_000), Bytes::from_bytes(64 << 20));
    work
}

#[test]
fn two_hundred_orders_complete_among_the_jobs_of_others() {
    let Some(lab) = SlurmLab::start(Path::new(crate::SUPERVISOR)) else { return };
    crate::tokio().block_on(orders(&lab));
}

async fn orders(lab: &SlurmLab) {
    let home = TempDir::new().unwrap();
    let mut runtime = lab.runtime(lab.rest(), "cluster-1", home.path());
    let began = Instant::now();
    let (mut live, mut foreign) = (BTreeMap::new(), BTreeMap::new());
    let (mut started, mut done, mut samples, mut unsteady) = (0, 0, 0_u32, 0_u32);
    while done < ORDERS {
        // as placement does: no more than there is room for
        while started < ORDERS && live.len() < (NODES * DEVICES) as usize - 6 {
            let node = format!("n{}", started as u32 % NODES + 1);
            let key = AssignmentKey {
                order: Uuid::now_v7().to_string().parse().unwrap(),
                generation: 1,
                component: "trainer".parse().unwrap(),
                replica: 0,
            };
            runtime.start(&key, &work(&node, started)).await.unwrap();
            live.insert(key, node);
            started += 1;
            if started % EVERY == 0 {
                let file = home.path().join(format!("foreign-{started}"));
                let script = format!("sleep 3; echo $CUDA_VISIBLE_DEVICES > {}", file.display());
                let words = ["--parsable", "--output=/dev/null", "--gres=gpu:a100:2", "--wrap", &script];
                foreign.insert(lab.command("sbatch", &words).trim().to_owned(), file);
            }
        }
        for (key, _) in live.clone() {
            if let Observed::Ended(ended) = runtime.observe(&key).await.unwrap() {
                assert_eq!((ended.how, ended.exit_code), (How::Exited, Some(0)), "{}", ended.message);
                let log = runtime.logs(&key, 0, 1_000).await.unwrap();
                assert_eq!(log.trim().split(',').count(), 1, "one device each: {log}");
                live.remove(&key);
                done += 1;
            }
        }
        // a sample counts where Slurm says the same before and after
        let before = used_by_slurm(lab);
        let ours = used_by_us(&mut runtime).await;
        if used_by_slurm(lab) == before {
            assert_eq!(ours, before, "what is in use");
            samples += 1;
        } else {
            unsteady += 1;
        }
        assert!(began.elapsed() < PATIENCE, "{done} of {ORDERS} are done");
    }
    println!(
        "{ORDERS} orders and {} jobs of others in {:.1?}; {samples} steady samples agreed, {unsteady} changed meanwhile",
        foreign.len(),
        began.elapsed()
    );
    assert!(samples > 10, "too few samples to say anything");
    for (id, file) in foreign {
        let end = Instant::now() + Duration::from_mins(2);
        while !file.exists() {
            assert!(Instant::now() < end, "job {id} of somebody else did not complete");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let shown = std::fs::read_to_string(&file).unwrap();
        assert_eq!(shown.trim().split(',').count(), 2, "it kept its devices");
    }
}
