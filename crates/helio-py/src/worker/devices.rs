//! `CUDA_VISIBLE_DEVICES` and its like: a call sees the devices that were assigned to it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use helio_config::table::{ACCEL_ENV_VAR_OVERRIDE_ON_ZERO, TPU_RESOURCE_PER_CHIP};
use helio_env::machine;
use helio_env::settings::variable;
use helio_types::devices::{AMD_GPU, INTEL_GPU};
use helio_types::{DEVICE_KINDS, DeviceKind, Devices};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// TPUs whose chips have several devices each have a number for every one of these.
const TPU: &str = "TPU";
/// Variables for programs on a part of a host's chips, besides the one that names the chips.
const TPU_CHIPS_BOUNDS: &str = "TPU_CHIPS_PER_HOST_BOUNDS";
const TPU_HOST_BOUNDS: &str = "TPU_HOST_BOUNDS";
const ONE_CHIP: &str = "1,1,1";
const TWO_CHIPS: &str = "1,2,1";
const ONE_HOST: &str = "1,1,1";

/// The values of the variables when the process started; those of devices name the node's, by index.
static ORIGINAL: OnceLock<BTreeMap<&'static str, Option<String>>> = OnceLock::new();

/// Variables that are not what they were.
static CHANGED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Variables and the values that a call gives them; `None`: unset.
type Variables = BTreeMap<&'static str, Option<String>>;

/// Notes the variables before anything changes them.
pub(super) fn remember() {
    ORIGINAL.get_or_init(|| {
        let kinds = DEVICE_KINDS.iter().chain([&AMD_GPU, &INTEL_GPU]).map(|kind| kind.variable);
        let all = kinds.chain([TPU_CHIPS_BOUNDS, TPU_HOST_BOUNDS]);
        all.map(|name| (name, variable(name))).collect()
    });
}

fn original(variable: &str) -> Option<&'static str> {
    ORIGINAL.get()?.get(variable)?.as_deref()
}

fn is_set(name: &str) -> bool {
    variable(name).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Looks for the machine's kinds of accelerators. Called in the zygote, it spares each copy the search.
pub(super) fn find() {
    kinds();
}

/// The kinds of accelerators, with the devices that this machine has.
fn kinds() -> &'static [DeviceKind] {
    static KINDS: OnceLock<Vec<DeviceKind>> = OnceLock::new();
    KINDS.get_or_init(|| {
        DEVICE_KINDS.iter().filter_map(|kind| machine::device_kind(kind.resource)).collect()
    })
}

fn devices_a_chip() -> u32 {
    let number = helio_env::settings::read(&TPU_RESOURCE_PER_CHIP);
    number.ok().and_then(|number| u32::try_from(number).ok()).unwrap_or(1)
}

/// The names that the node's variable gave to its devices, by index; none: they are their numbers.
fn names(kind: &DeviceKind) -> Vec<String> {
    let names = original(kind.variable).map(|value| kind.names(value)).unwrap_or_default();
    let each = devices_a_chip();
    if kind.resource != TPU || each == 1 {
        return names;
    }
    let chips = names.iter().filter_map(|chip| chip.parse::<u32>().ok());
    chips.flat_map(|chip| (0..each).map(move |n| (chip * each + n).to_string())).collect()
}

/// The devices by the names that the node's variable had given them, else by their numbers.
fn named(kind: &DeviceKind, indices: &[u32]) -> Vec<String> {
    let names = names(kind);
    let name = |index: &u32| names.get(*index as usize).cloned().unwrap_or(index.to_string());
    indices.iter().map(name).collect()
}

/// Returns the variables of a call that has these devices of the kind.
fn shown_by(kind: &DeviceKind, indices: &[u32]) -> Variables {
    let names = named(kind, indices);
    if kind.resource != TPU {
        return Variables::from([(kind.variable, Some(kind.value(&names)))]);
    }
    let each = devices_a_chip();
    let mut chips: Vec<u32> = names
        .iter()
        .filter_map(|name| name.parse().ok())
        .map(|device: u32| device / each)
        .collect();
    chips.sort_unstable();
    chips.dedup();
    let value = chips.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let mut all = Variables::from([(kind.variable, (!value.is_empty()).then_some(value))]);
    let bounds = original(TPU_CHIPS_BOUNDS);
    let of_part = match chips.len() {
        1 => ONE_CHIP,
        2 => TWO_CHIPS,
        _ => {
            // Bounds of a part would be wrong for more of it.
            if matches!(bounds, Some(ONE_CHIP | TWO_CHIPS)) {
                all.extend([(TPU_CHIPS_BOUNDS, None), (TPU_HOST_BOUNDS, None)]);
            }
            return all;
        }
    };
    let own_host = original(TPU_HOST_BOUNDS).filter(|_| bounds == Some(of_part));
    all.insert(TPU_CHIPS_BOUNDS, Some(of_part.to_owned()));
    all.insert(TPU_HOST_BOUNDS, Some(own_host.unwrap_or(ONE_HOST).to_owned()));
    all
}

/// Lets the process see these devices; of kinds of which it has none, those that it was started with.
pub(super) fn show(py: Python<'_>, devices: &Devices) -> PyResult<()> {
    let hides = helio_env::settings::read(&ACCEL_ENV_VAR_OVERRIDE_ON_ZERO).unwrap_or_default();
    let mut all = Variables::new();
    for kind in kinds().iter().filter(|kind| !is_set(kind.leave_alone)) {
        match devices.get(kind.resource) {
            Some(indices) => all.extend(shown_by(kind, indices)),
            None if hides && kind.resource == TPU => drop(all.insert(kind.variable, None)),
            None if hides => drop(all.insert(kind.variable, Some(String::new()))),
            // A program may have changed that of its own will; the next one is not to suffer from it.
            None if kind.resource == "GPU" => {
                all.insert(kind.variable, original(kind.variable).map(str::to_owned));
            }
            None => {}
        }
    }
    let mut changed = CHANGED.lock();
    for variable in changed.drain(..) {
        all.entry(variable).or_insert_with(|| original(variable).map(str::to_owned));
    }
    let environ = py.import("os")?.getattr("environ")?;
    for (variable, value) in all {
        if value.as_deref() != original(variable) {
            changed.push(variable);
        }
        match value {
            Some(value) => environ.set_item(variable, value)?,
            None => drop(environ.call_method1("pop", (variable, py.None()))?),
        }
    }
    Ok(())
}

/// The GPUs as `get_gpu_ids` shows them: numbers, or the names that the variable had given them.
pub(crate) fn gpus<'py>(py: Python<'py>, devices: &Devices) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    let Some(kind) = kinds().iter().find(|kind| kind.resource == "GPU") else { return Ok(list) };
    let names = names(kind);
    for index in devices.get(kind.resource).into_iter().flatten() {
        match names.get(*index as usize) {
            Some(name) => list.append(name)?,
            None => list.append(index)?,
        }
    }
    Ok(list)
}

/// The devices of every kind as `get_accelerator_ids` shows them.
pub(crate) fn by_kind<'py>(py: Python<'py>, devices: &Devices) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for kind in kinds() {
        let indices = devices.get(kind.resource).map_or(&[][..], Vec::as_slice);
        all.set_item(kind.resource, named(kind, indices))?;
    }
    Ok(all)
}

/// A resource whose units are devices: its name, its variable, the names that the variable gives to this
/// machine's (`None`: it is not set), and the quantities that can be asked for (`None`: any; empty: whole
/// ones).
type KindRow = (&'static str, &'static str, Option<Vec<String>>, Option<Vec<u32>>);

/// Returns the number of the machine's GPUs of each maker, by their variable.
#[pyfunction]
pub(crate) fn gpu_counts() -> BTreeMap<&'static str, usize> {
    machine::gpu_counts().into_iter().map(|(kind, count)| (kind.variable, count)).collect()
}

/// All kinds of devices.
#[pyfunction]
pub(crate) fn device_kinds() -> Vec<KindRow> {
    use helio_types::devices::Sizes;
    let sizes = |kind: &DeviceKind| match kind.sizes {
        Sizes::Any => None,
        Sizes::Whole => Some(Vec::new()),
        Sizes::Only(numbers) => Some(numbers.to_vec()),
    };
    let visible = |kind: &DeviceKind| {
        let names = machine::visible(kind)?;
        let each = if kind.resource == TPU { devices_a_chip() as usize } else { 1 };
        Some(names.iter().flat_map(|name| std::iter::repeat_n(name.clone(), each)).collect())
    };
    kinds().iter().map(|kind| (kind.resource, kind.variable, visible(kind), sizes(kind))).collect()
}
