//! Kinds of devices: resources whose units have numbers, and the variables by which a process sees only
//! those that it was given.

use std::collections::BTreeMap;

/// Devices by the resource that they are units of, by index on their node.
pub type Devices = BTreeMap<String, Vec<u32>>;

/// A kind of device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceKind {
    /// The resource.
    pub resource: &'static str,
    /// Names the devices that a process sees, separated by commas.
    pub variable: &'static str,
    /// Users who manage devices themselves turn it off with this.
    pub leave_alone: &'static str,
    /// The text before each number in the variable.
    pub prefix: &'static str,
    /// The quantities that can be asked for.
    pub sizes: Sizes,
}

/// Quantities of a device that can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sizes {
    /// Whole ones, or a part of one.
    Any,
    /// Whole devices alone.
    Whole,
    /// Devices with these numbers alone.
    Only(&'static [u32]),
}

const fn kind(
    resource: &'static str,
    variable: &'static str,
    leave_alone: &'static str,
    sizes: Sizes,
) -> DeviceKind {
    DeviceKind { resource, variable, leave_alone, prefix: "", sizes }
}

/// All kinds; GPUs as those of NVIDIA, see [`AMD_GPU`] and [`INTEL_GPU`].
pub const DEVICE_KINDS: [DeviceKind; 9] = [
    kind("GPU", "CUDA_VISIBLE_DEVICES", "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES", Sizes::Any),
    kind(
        "TPU",
        "TPU_VISIBLE_CHIPS",
        "RAY_EXPERIMENTAL_NOSET_TPU_VISIBLE_CHIPS",
        Sizes::Only(&[1, 2, 4, 8]),
    ),
    kind(
        "neuron_cores",
        "NEURON_RT_VISIBLE_CORES",
        "RAY_EXPERIMENTAL_NOSET_NEURON_RT_VISIBLE_CORES",
        Sizes::Whole,
    ),
    kind(
        "HPU",
        "HABANA_VISIBLE_MODULES",
        "RAY_EXPERIMENTAL_NOSET_HABANA_VISIBLE_MODULES",
        Sizes::Whole,
    ),
    kind(
        "NPU",
        "ASCEND_RT_VISIBLE_DEVICES",
        "RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES",
        Sizes::Any,
    ),
    kind("RBLN", "RBLN_DEVICES", "RAY_EXPERIMENTAL_NOSET_RBLN_RT_VISIBLE_DEVICES", Sizes::Whole),
    DeviceKind {
        resource: "FURIOSA",
        variable: "FURIOSA_DEVICES",
        leave_alone: "RAY_EXPERIMENTAL_NOSET_FURIOSA_DEVICES",
        prefix: "npu:",
        sizes: Sizes::Whole,
    },
    kind(
        "MBLT",
        "QBRUNTIME_VISIBLE_DEVICES",
        "RAY_EXPERIMENTAL_NOSET_MBLT_RT_VISIBLE_DEVICES",
        Sizes::Whole,
    ),
    kind(
        "TTNPU",
        "TT_VISIBLE_DEVICES",
        "RAY_EXPERIMENTAL_NOSET_TENSTORRENT_VISIBLE_DEVICES",
        Sizes::Whole,
    ),
];

/// The device kind of `GPU` where the GPUs are AMD's.
pub const AMD_GPU: DeviceKind =
    kind("GPU", "HIP_VISIBLE_DEVICES", "RAY_EXPERIMENTAL_NOSET_HIP_VISIBLE_DEVICES", Sizes::Any);

/// The device kind of `GPU` where the GPUs are Intel's.
pub const INTEL_GPU: DeviceKind =
    kind("GPU", "ZE_AFFINITY_MASK", "RAY_EXPERIMENTAL_NOSET_ZE_AFFINITY_MASK", Sizes::Any);

impl DeviceKind {
    /// The names in a value of the variable. One that names none (`NoDevFiles` stands for that) hides all.
    ///
    /// ```
    /// use helio_types::DEVICE_KINDS;
    ///
    /// let gpu = DEVICE_KINDS.iter().find(|kind| kind.resource == "GPU").unwrap();
    /// assert_eq!(gpu.names("0, 2"), ["0", "2"]);
    /// assert!(gpu.names("NoDevFiles").is_empty());
    /// assert_eq!(gpu.value(&["0".to_owned(), "2".to_owned()]), "0,2");
    /// ```
    #[must_use]
    pub fn names(&self, value: &str) -> Vec<String> {
        let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
        let bare = names.filter(|name| *name != "NoDevFiles").map(|name| {
            let rest = name.strip_prefix(self.prefix).unwrap_or(name);
            // `npu:0:1` are the cores of a device.
            if self.prefix.is_empty() { rest } else { rest.split(':').next().unwrap_or(rest) }
        });
        bare.map(str::to_owned).collect()
    }

    /// The value that shows devices of these names.
    #[must_use]
    pub fn value(&self, names: &[String]) -> String {
        names.iter().map(|name| format!("{}{name}", self.prefix)).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_fit_together() {
        for kind in DEVICE_KINDS.iter().chain([&AMD_GPU, &INTEL_GPU]) {
            let names = ["3".to_owned(), "5".to_owned()];
            assert_eq!(kind.names(&kind.value(&names)), names, "{}", kind.resource);
            assert!(kind.names("").is_empty() && kind.names("NoDevFiles").is_empty());
        }
        let furiosa = DEVICE_KINDS.iter().find(|kind| kind.resource == "FURIOSA").copied();
        let furiosa = furiosa.unwrap_or(AMD_GPU);
        assert_eq!(furiosa.value(&["0".to_owned(), "1".to_owned()]), "npu:0,npu:1");
        assert_eq!(furiosa.names("npu:2:0, 3"), ["2", "3"]);
    }
}
