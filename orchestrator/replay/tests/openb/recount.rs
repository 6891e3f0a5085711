//! The figures counted again from the decisions alone.

use crate::cases::case;
use proptest::prelude::*;
use rhumb_replay::openb::{Arrivals, Bench, Nodes, Pods, Policy, Ranks};

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_node_is_overfull_and_the_columns_add_up(case in case()) {
        let fields = |text: &str, column: usize| -> Vec<u64> {
            text.lines().skip(1).map(|line| line.split(',').nth(column).unwrap().parse().unwrap()).collect()
        };
        let nodes = Nodes::read("nodes", case.nodes.as_bytes()).unwrap();
        let pods = Pods::read("pods", case.pods.as_bytes(), &nodes).unwrap();
        let arrivals = Arrivals::read("arrivals", case.arrivals.as_bytes(), &pods).unwrap();
        let ranks = Ranks::read("ranks", case.ranks.as_bytes(), &nodes).unwrap();
        let bench = Bench::new(nodes, pods, arrivals, ranks);
        let (devices, milli) = (fields(&case.pods, 3), fields(&case.pods, 4));
        let total = fields(&case.nodes, 3).iter().sum::<u64>() * 1000;
        for policy in Policy::ALL {
            let (mut cpu, mut memory) = (fields(&case.nodes, 1), fields(&case.nodes, 2));
            let mut left: Vec<Vec<u64>> = fields(&case.nodes, 3).iter().map(|n| vec![1000; *n as usize]).collect();
            let (mut arrived, mut used, mut columns) = (0, 0, vec![(0.0, 0); 131]);
            let outcome = bench.run(policy, 1, &mut |decision| {
                let pod = decision.pod;
                arrived += devices[pod] * milli[pod];
                if let Some(node) = decision.node {
                    cpu[node] = cpu[node].checked_sub(fields(&case.pods, 1)[pod]).expect("cpu is there");
                    memory[node] = memory[node].checked_sub(fields(&case.pods, 2)[pod]).expect("memory is there");
                    assert_eq!(decision.devices.len() as u64, devices[pod]);
                    for device in decision.devices {
                        let left = &mut left[node][usize::from(*device)];
                        *left = left.checked_sub(milli[pod]).expect("the device has room");
                        used += milli[pod];
                    }
                }
                let column = (arrived as f64 * 100.0 / total as f64).round().min(130.0) as usize;
                columns[column].0 += used as f64 * 100.0 / total as f64;
                columns[column].1 += 1;
            });
            let outcome = outcome.unwrap();
            prop_assert!((outcome.final_alloc_pct - used as f64 * 100.0 / total as f64).abs() < 1e-4);
            let mut before = 0.0;
            for (column, (sum, events)) in columns.into_iter().enumerate() {
                before = if events == 0 { before } else { sum / f64::from(events) };
                let shown = outcome.alloc_pct[column];
                prop_assert!((shown - before).abs() < 1e-3, "{} column {}: {} for {}", policy, column, shown, before);
                prop_assert!((0.0..=100.0).contains(&outcome.frag_pct[column]));
            }
        }
    }
}
