//! The catalogue's measured figures against the results they come from.

use rhumb_devices::Catalogue;
use rhumb_model::{Decimal, Ratio};
use std::collections::BTreeMap;

#[test]
fn tokens_are_the_median_of_all_submissions() {
    let Some(folder) = public_data::folder("throughput") else { return };
    let text = public_data::text(&folder, "mlperf_inference_v4.1_closed.csv").unwrap().expect("the results are there");
    let catalogue = Catalogue::built_in();
    let mut results: BTreeMap<String, Vec<Ratio>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let &[_, _, accelerator, _, "llama2-70b-99", "Offline", _, "tokens/s", each] = &cells[..] else { continue };
        let (id, _) = catalogue.by_name(accelerator, None).expect("every accelerator of these results is known");
        results.entry(id.to_string()).or_default().push(each.parse::<Decimal>().unwrap().ratio());
    }
    assert!(results.len() > 5, "{results:?}");
    for (id, entry) in catalogue.entries() {
        let measured = results.get_mut(id.as_str()).map(|all| {
            all.sort_unstable();
            let (low, high) = (all[(all.len() - 1) / 2], all[all.len() / 2]);
            // tenths, as the catalogue has them
            ((low + high) * Ratio::from_integer(5)).round()
        });
        let stated = entry.llama2_70b_tokens.map(|tokens| tokens.ratio() * Ratio::from_integer(10));
        assert_eq!(stated, measured, "{id}, in tenths of a token a second");
    }
}
