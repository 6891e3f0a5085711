//! A second look at a journal, by other means than the engine's: every device and every link at every instant.

use rhumb_federation::View;
use rhumb_model::{LinkId, SiteName};
use rhumb_replay::{
    Workload,
    journal::{Event, Held, Record},
    time::Micros,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Moving,
    Running(Micros),
    Leaving,
    Done,
}

/// What a checked journal adds up to.
#[derive(Debug, Default, PartialEq)]
pub struct Sums {
    pub finished: usize,
    pub rejected: usize,
    /// Device-microseconds of finished runs.
    pub device_micros: i128,
    pub queue: Vec<i64>,
}

/// Panics with what is wrong.
pub fn check(view: &View, workload: &Workload, journal: &[Record]) -> Sums {
    let mut stages: Vec<Option<Stage>> = vec![None; workload.jobs.len()];
    let mut held: BTreeMap<usize, std::sync::Arc<Held>> = BTreeMap::new();
    let mut devices: BTreeMap<(usize, u32), usize> = BTreeMap::new();
    let mut down: (BTreeSet<SiteName>, BTreeSet<LinkId>) = Default::default();
    let mut sums = Sums::default();
    let mut before = Micros(i64::MIN);
    for record in journal {
        assert!(record.at >= before, "time goes on");
        before = record.at;
        match &record.event {
            Event::Submitted { job } => {
                assert_eq!(stages[*job], None);
                assert_eq!(record.at, workload.jobs[*job].submit);
                stages[*job] = Some(Stage::Waiting);
            }
            Event::Rejected { job } => {
                assert_eq!(stages[*job], Some(Stage::Waiting));
                stages[*job] = Some(Stage::Done);
                sums.rejected += 1;
            }
            Event::Placed { job, held: what } => {
                assert_eq!(stages[*job], Some(Stage::Waiting));
                whole_gang(workload, *job, what);
                for seat in &what.seats {
                    assert!(!down.0.contains(&seat.site), "nothing is placed on a site that is down");
                    for device in &seat.devices {
                        let owner = devices.insert((seat.host, *device), *job);
                        assert_eq!(owner, None, "device {device} of host {} is taken twice", seat.host);
                    }
                }
                assert!(
                    what.links.iter().all(|l| !down.1.contains(&l.link)),
                    "nothing is sent over a link that is down"
                );
                held.insert(*job, what.clone());
                stages[*job] = Some(Stage::Moving);
            }
            Event::Started { job } => {
                assert_eq!(stages[*job], Some(Stage::Moving));
                stages[*job] = Some(Stage::Running(record.at));
            }
            Event::Ended { job } => {
                let Some(Stage::Running(start)) = stages[*job] else { panic!("job {job} ended but did not run") };
                let count: usize = held[job].seats.iter().map(|s| s.devices.len()).sum();
                sums.device_micros += i128::from((record.at - start).0) * count as i128;
                if let Some(runs) = workload.jobs[*job].runs {
                    assert_eq!(record.at - start, runs.max(Micros(1)));
                }
                sums.queue.push((start - workload.jobs[*job].submit).0);
                devices.retain(|_, owner| owner != job);
                stages[*job] = Some(Stage::Leaving);
            }
            Event::Finished { job } => {
                assert_eq!(stages[*job], Some(Stage::Leaving));
                held.remove(job);
                stages[*job] = Some(Stage::Done);
                sums.finished += 1;
            }
            Event::Lost { job } => {
                assert!(matches!(stages[*job], Some(Stage::Moving | Stage::Running(_))));
                held.remove(job);
                devices.retain(|_, owner| owner != job);
                stages[*job] = Some(Stage::Waiting);
            }
            Event::SiteDown { site } => assert!(down.0.insert(site.clone())),
            Event::SiteUp { site } => assert!(down.0.remove(site)),
            Event::LinkDown { link } => assert!(down.1.insert(link.clone())),
            Event::LinkUp { link } => assert!(down.1.remove(link)),
        }
        capacity(view, &stages, &held);
    }
    assert!(stages.iter().all(|s| *s == Some(Stage::Done)), "every job ends or is rejected");
    assert!(devices.is_empty() && held.is_empty());
    sums
}

/// What runs on a node and what a link carries at this moment, summed anew.
fn capacity(view: &View, stages: &[Option<Stage>], held: &BTreeMap<usize, std::sync::Arc<Held>>) {
    let mut links: BTreeMap<&LinkId, u64> = BTreeMap::new();
    let mut sites: BTreeMap<&SiteName, (u64, BTreeSet<usize>)> = BTreeMap::new();
    for (job, what) in held {
        let phase = match stages[*job] {
            Some(Stage::Moving) => 0,
            Some(Stage::Running(_)) => 1,
            _ => 2,
        };
        what.links.iter().for_each(|l| *links.entry(&l.link).or_default() += l.kbps[phase]);
        if phase < 2 {
            for seat in &what.seats {
                let site = sites.entry(&seat.site).or_default();
                site.0 += seat.devices.len() as u64;
                site.1.insert(seat.host);
            }
        }
    }
    for (id, carried) in links {
        let capacity = view.link(id).unwrap().capacity.kbps();
        assert!(carried <= capacity, "link {id} carries {carried} of {capacity}");
    }
    for (name, (taken, hosts)) in sites {
        let nodes = &view.site(name).unwrap().whole;
        let most: u64 = nodes.iter().map(|n| u64::from(n.count) * u64::from(n.shape.free_devices())).sum();
        assert!(taken <= most, "site {name} gives {taken} of {most}");
        assert!(hosts.len() as u64 <= nodes.iter().map(|n| u64::from(n.count)).sum());
    }
}

/// All replicas, each on one node, on no more sites than allowed.
fn whole_gang(workload: &Workload, job: usize, held: &Held) {
    let class = &workload.classes[workload.jobs[job].class];
    for (index, part) in class.parts.iter().enumerate() {
        let seats: Vec<_> = held.seats.iter().filter(|s| s.component == index).collect();
        let replicas = class.order.components[index].replicas;
        assert!((replicas.min..=replicas.max).contains(&(seats.len() as u32)), "a gang is whole");
        assert!(part.devices == 0 || seats.iter().all(|s| s.devices.len() as u32 == part.devices));
        let sites: BTreeSet<_> = seats.iter().map(|s| &s.site).collect();
        assert!(sites.len() as u32 <= class.max_sites);
    }
}
