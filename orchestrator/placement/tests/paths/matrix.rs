use proptest::prelude::*;
use rhumb_placement::paths::matrix::{
    Arc, Demand, Matrix, MatrixError, Routing, SplitEffort, Traffic, UnsplitEffort, split, unsplit,
};

fn name(i: usize) -> String {
    format!("p{i}")
}

type Parts = (Vec<String>, Vec<Arc>, Vec<Demand>);

/// A ring, so that every demand has two paths, with chords.
fn parts() -> impl Strategy<Value = Parts> {
    (3..=5_usize).prop_flat_map(|n| {
        let chord = (0..n, 0..n, 1..40_u64);
        let demand = (0..n, 0..n, 0..30_u64);
        let ring = proptest::collection::vec(1..40_u64, 2 * n);
        (ring, proptest::collection::vec(chord, 0..4), proptest::collection::vec(demand, 1..5)).prop_map(
            move |(ring, chords, demands)| {
                let both = (0..n).flat_map(|i| [(i, (i + 1) % n), ((i + 1) % n, i)]);
                let ring = both.zip(ring).map(|((a, b), c)| (a, b, c));
                let arcs = ring.chain(chords);
                let arcs = arcs.map(|(a, b, c)| Arc { from: name(a), to: name(b), capacity: Traffic(c) }).collect();
                let demands = demands.into_iter();
                let demands = demands.map(|(a, b, d)| Demand { from: name(a), to: name(b), amount: Traffic(d) });
                ((0..n).map(name).collect(), arcs, demands.collect())
            },
        )
    })
}

/// Checks that the shares are paths of their demands, and returns the largest utilisation, from the arcs alone.
fn measured((_, arcs, demands): &Parts, routing: &Routing) -> f64 {
    let mut load = vec![0_f64; arcs.len()];
    for (demand, shares) in demands.iter().zip(&routing.paths) {
        let mut sum = 0;
        for share in shares {
            assert_eq!(arcs[*share.arcs.first().unwrap()].from, demand.from);
            assert_eq!(arcs[*share.arcs.last().unwrap()].to, demand.to);
            for pair in share.arcs.windows(2) {
                assert_eq!(arcs[pair[0]].to, arcs[pair[1]].from);
            }
            sum += share.carried;
            for arc in &share.arcs {
                load[*arc] += share.carried as f64 / share.parts as f64;
            }
        }
        if demand.from != demand.to && demand.amount.0 > 0 {
            assert_eq!(sum, u128::from(demand.amount.0) * u128::from(shares[0].parts));
        }
    }
    load.iter().zip(arcs).map(|(l, a)| l / a.capacity.0 as f64).fold(0., f64::max)
}

/// The least largest utilisation over every choice of one path for each demand.
fn brute((_, arcs, demands): &Parts) -> f64 {
    fn paths(
        arcs: &[Arc],
        at: &str,
        to: &str,
        seen: &mut Vec<String>,
        path: &mut Vec<usize>,
        found: &mut Vec<Vec<usize>>,
    ) {
        if at == to {
            found.push(path.clone());
            return;
        }
        for (i, arc) in arcs.iter().enumerate() {
            if arc.from == at && !seen.contains(&arc.to) {
                seen.push(arc.to.clone());
                path.push(i);
                paths(arcs, &arc.to, to, seen, path, found);
                path.pop();
                seen.pop();
            }
        }
    }
    fn choose(arcs: &[Arc], options: &[(u64, Vec<Vec<usize>>)], load: &mut Vec<u64>, best: &mut f64) {
        let largest = load.iter().zip(arcs).map(|(l, a)| *l as f64 / a.capacity.0 as f64).fold(0., f64::max);
        if largest >= *best {
            return;
        }
        let Some(((amount, paths), rest)) = options.split_first() else {
            *best = largest;
            return;
        };
        for path in paths {
            for arc in path {
                load[*arc] += amount;
            }
            choose(arcs, rest, load, best);
            for arc in path {
                load[*arc] -= amount;
            }
        }
    }
    let options: Vec<_> = demands
        .iter()
        .map(|d| {
            let mut found = Vec::new();
            paths(arcs, &d.from, &d.to, &mut vec![d.from.clone()], &mut Vec::new(), &mut found);
            (d.amount.0, found)
        })
        .collect();
    let mut best = f64::INFINITY;
    choose(arcs, &options, &mut vec![0; arcs.len()], &mut best);
    best
}

fn matrix((points, arcs, demands): &Parts) -> Matrix {
    Matrix::new(points, arcs, demands).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn single_paths_reach_the_best_choice_and_bounds_hold(parts in parts()) {
        let matrix = matrix(&parts);
        let best = brute(&parts);
        let effort = UnsplitEffort { responses: 3_000, ..UnsplitEffort::default() };
        let one = unsplit(&matrix, effort);
        let found = measured(&parts, &one);
        prop_assert!((found - one.max_utilisation.ratio()).abs() < 1e-6);
        prop_assert!(one.paths.iter().all(|shares| shares.len() <= 1));
        prop_assert!(one.lower_bound.ratio() <= best + 1e-6, "{} > {best}", one.lower_bound.ratio());
        prop_assert!(found >= best - 1e-9 && found <= best * 1.001 + 1e-9, "{found} for {best}");
        let many = split(&matrix, SplitEffort::default());
        let found = measured(&parts, &many);
        prop_assert!((found - many.max_utilisation.ratio()).abs() < 1e-6);
        prop_assert!(many.max_utilisation.ratio() <= best * 1.001 + 1e-6);
        let gap = many.max_utilisation.ratio() - many.lower_bound.ratio();
        prop_assert!(gap >= -1e-6 && gap <= many.max_utilisation.ratio() * 0.01 + 1e-6, "{gap}");
    }

    /// The order in which points, arcs and demands come says nothing.
    #[test]
    fn the_order_of_the_input_changes_nothing(parts in parts(), turn in 0..9_usize) {
        let mut other = parts.clone();
        let n = other.0.len();
        other.0.rotate_left(turn % n);
        other.1.reverse();
        let n = other.2.len();
        other.2.rotate_left(turn % n);
        let effort = UnsplitEffort { responses: 2_000, ..UnsplitEffort::default() };
        prop_assert_eq!(unsplit(&matrix(&parts), effort).max_utilisation, unsplit(&matrix(&other), effort).max_utilisation);
        let (one, two) = (split(&matrix(&parts), effort.split), split(&matrix(&other), effort.split));
        prop_assert_eq!((one.max_utilisation, one.lower_bound), (two.max_utilisation, two.lower_bound));
    }
}

#[test]
fn what_has_no_path_is_counted_and_left_out() {
    let arcs = [Arc { from: name(0), to: name(1), capacity: Traffic(10) }];
    let demand = |a, b, d| Demand { from: name(a), to: name(b), amount: Traffic(d) };
    let demands = [demand(1, 0, 7), demand(0, 1, 4), demand(0, 2, 1), demand(2, 2, 5), demand(0, 1, 0)];
    let matrix = Matrix::new(&[name(0), name(1), name(2)], &arcs, &demands).unwrap();
    assert_eq!((matrix.demands(), matrix.unrouted()), (5, &[0, 2][..]));
    assert_eq!(matrix.largest_demand_over_widest_path().billionths, 400_000_000);
    for routing in [split(&matrix, SplitEffort::default()), unsplit(&matrix, UnsplitEffort::default())] {
        assert_eq!(routing.max_utilisation.billionths, 400_000_000);
        assert_eq!(routing.paths.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 0, 0, 0]);
    }
    let nothing = Matrix::new(&[name(0), name(1)], &[], &demands[..1]).unwrap();
    assert_eq!(split(&nothing, SplitEffort::default()).max_utilisation.billionths, 0);
    assert_eq!(unsplit(&nothing, UnsplitEffort::default()).max_utilisation.billionths, 0);
}

#[test]
fn a_matrix_that_makes_no_sense_is_refused() {
    let arc = |from, to, c| Arc { from: name(from), to: name(to), capacity: Traffic(c) };
    let points = [name(0), name(1)];
    let refused = |arcs: &[Arc], demands: &[Demand]| Matrix::new(&points, arcs, demands).unwrap_err();
    assert_eq!(refused(&[arc(0, 1, 0)], &[]), MatrixError::Capacity { index: 0 });
    assert!(matches!(refused(&[arc(0, 1, 1), arc(1, 5, 1)], &[]), MatrixError::Point { what: "arc", index: 1, .. }));
    let demand = Demand { from: name(3), to: name(0), amount: Traffic(1) };
    assert!(matches!(refused(&[arc(0, 1, 1)], &[demand]), MatrixError::Point { what: "demand", .. }));
    assert!(matches!(refused(&[arc(0, 1, u64::MAX), arc(1, 0, 1)], &[]), MatrixError::Range { what: "capacities" }));
    assert!(matches!(Matrix::new(&[name(0), name(0)], &[], &[]), Err(MatrixError::Twice { .. })));
}

/// Amounts at both ends of the range end in neither overflow nor a false bound.
#[test]
fn large_and_small_figures_are_carried_alike() {
    for unit in [1, 1 << 40] {
        let arc = |a, b, c: u64| Arc { from: name(a), to: name(b), capacity: Traffic(c * unit) };
        let arcs = [arc(0, 1, 1), arc(0, 2, 1_000), arc(2, 1, 9_000)];
        let demands = [Demand { from: name(0), to: name(1), amount: Traffic(1_001 * unit) }];
        let matrix = Matrix::new(&[name(0), name(1), name(2)], &arcs, &demands).unwrap();
        let routing = split(&matrix, SplitEffort::default());
        assert!((routing.max_utilisation.ratio() - 1.).abs() < 1e-3, "{routing:?}");
        assert!(routing.lower_bound.ratio() > 0.99 && routing.lower_bound.ratio() <= 1., "{routing:?}");
    }
}
