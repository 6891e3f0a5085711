//! Instances with proved optima, where the data is there.

use crate::check;
use rhumb_placement::batch::{
    instance,
    solve::{Budget, solve},
};
use std::{collections::BTreeMap, fs};

#[test]
fn proved_optima_are_met_and_bounds_are_close() {
    let Some(folder) = public_data::folder("facility") else { return };
    let text = public_data::text(&folder, "joint_small.json").unwrap().unwrap();
    let optima = fs::read_to_string(folder.join("joint_small_optima.csv")).unwrap();
    let optima: BTreeMap<&str, f64> = optima
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect::<Vec<_>>())
        .map(|cells| (cells[0], cells[1].parse().unwrap()))
        .collect();
    let instances = instance::read(&text).unwrap();
    assert_eq!(instances.len(), 24);
    let (mut gaps, mut below) = (Vec::new(), Vec::new());
    for instance in &instances {
        let answer = solve(instance, &Budget::default()).unwrap();
        check::sound(instance, &answer);
        let usd = |n: instance::Nano| n.0 as f64 / 1e9;
        let optimum = optima[instance.name.as_str()];
        // the optima are given to the micro-dollar
        assert!(usd(answer.lower_bound) <= optimum + 1e-6, "{}: bound above the optimum", instance.name);
        assert!(usd(answer.total) >= optimum - 1e-6, "{}: below the optimum", instance.name);
        gaps.push((usd(answer.total) - optimum) / optimum);
        below.push((optimum - usd(answer.lower_bound)) / optimum);
    }
    let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len() as f64;
    let worst = |list: &[f64]| list.iter().copied().fold(0.0, f64::max);
    assert!(mean(&gaps) <= 0.000_1 && worst(&gaps) <= 0.001, "gaps {gaps:?}");
    assert!(mean(&below) <= 0.002 && worst(&below) <= 0.01, "bounds {below:?}");
}
