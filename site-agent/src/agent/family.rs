//! The family of a device model: what its work is built for, and what shows devices to it.

use rhumb_devices::{accelerator::Vendor, catalogue::Catalogue};
use rhumb_model::ModelName;
use rhumb_runtimes::DeviceFamily;
use std::sync::OnceLock;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Family {
    /// As orders may name it in `run.variants`; the first that they do counts.
    pub(super) names: &'static [&'static str],
    /// `None`: nothing shows devices to work by a variable.
    pub(super) shown_by: Option<DeviceFamily>,
}

/// `None`: nobody knows the model.
pub(super) fn family(model: &ModelName) -> Option<Family> {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    let catalogue = CATALOGUE.get_or_init(Catalogue::built_in);
    let entry = catalogue.get(model).or_else(|| catalogue.by_name(model.as_str(), None).map(|(_, entry)| entry))?;
    Some(match entry.vendor {
        Vendor::Nvidia => Family { names: &["cuda", "nvidia"], shown_by: Some(DeviceFamily::Cuda) },
        Vendor::Huawei => Family { names: &["ascend", "huawei"], shown_by: Some(DeviceFamily::Ascend) },
        Vendor::Amd => Family { names: &["rocm", "amd"], shown_by: Some(DeviceFamily::Rocm) },
        // MACA heeds the word for CUDA
        Vendor::Metax => Family { names: &["maca", "metax"], shown_by: Some(DeviceFamily::Cuda) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_of_the_family_of_their_maker() {
        let shown = |model: &str| family(&ModelName::new(model).unwrap()).map(|family| family.names[0]);
        assert_eq!(shown("H100"), Some("cuda"));
        assert_eq!(shown("Ascend-910B3"), Some("ascend"));
        assert_eq!(shown("MI300X"), Some("rocm"));
        assert_eq!(shown("nobody-knows"), None);
    }
}
