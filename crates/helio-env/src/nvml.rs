//! The load of the NVIDIA GPUs of this machine, by the driver's management library (NVML).
//!
//! The library belongs to the driver, so it is loaded at run time where it is installed; nothing is linked
//! and no Python package is needed. Its functions may take a second, or hang with a broken driver: call
//! them on a thread of their own.

#![allow(unsafe_code, reason = "a library that is loaded at run time is called through pointers")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};

/// Names of the driver's library: found by the loader, or at the paths where container hosts and WSL
/// put it without telling the loader.
pub const LIBRARIES: [&CStr; 3] = [
    c"libnvidia-ml.so.1",
    c"/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    c"/usr/lib/wsl/lib/libnvidia-ml.so.1",
];

/// The most GPUs of a machine that are read.
const GPUS_MAX: c_uint = 64;
/// The length of a GPU's name with its zero byte, NVML_DEVICE_NAME_V2_BUFFER_SIZE.
const NAME_BYTES: usize = 96;
/// The most processes of a GPU that are told apart.
const PROCESSES_MAX: usize = 512;
/// NVML_SUCCESS.
const SUCCESS: c_int = 0;
/// NVML_TEMPERATURE_GPU: the sensor on the GPU itself.
const OF_THE_GPU: c_int = 0;
/// NVML_VALUE_NOT_AVAILABLE.
const UNKNOWN: c_ulonglong = c_ulonglong::MAX;

type Device = *mut c_void;

/// nvmlUtilization_t: percent of the last sample period, at most a second.
#[repr(C)]
#[derive(Default)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// nvmlMemory_t: bytes.
#[repr(C)]
#[derive(Default)]
struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// nvmlProcessInfo_t: bytes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProcessInfo {
    pid: c_uint,
    used: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// nvmlProcessUtilizationSample_t: percent, and when that was, in microseconds.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProcessSample {
    pid: c_uint,
    at: c_ulonglong,
    kernels: c_uint,
    memory: c_uint,
    encoder: c_uint,
    decoder: c_uint,
}

// The functions, as nvml.h declares them.
type Init = unsafe extern "C" fn() -> c_int;
type GetCount = unsafe extern "C" fn(*mut c_uint) -> c_int;
type GetHandle = unsafe extern "C" fn(c_uint, *mut Device) -> c_int;
type GetName = unsafe extern "C" fn(Device, *mut c_char, c_uint) -> c_int;
type GetUtilization = unsafe extern "C" fn(Device, *mut Utilization) -> c_int;
type GetMemory = unsafe extern "C" fn(Device, *mut Memory) -> c_int;
type GetPower = unsafe extern "C" fn(Device, *mut c_uint) -> c_int;
type GetTemperature = unsafe extern "C" fn(Device, c_int, *mut c_uint) -> c_int;
type GetProcesses = unsafe extern "C" fn(Device, *mut c_uint, *mut ProcessInfo) -> c_int;
type GetSamples =
    unsafe extern "C" fn(Device, *mut ProcessSample, *mut c_uint, c_ulonglong) -> c_int;

/// A reading of one GPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gpu {
    /// The position in the order of the PCI bus; `CUDA_VISIBLE_DEVICES` does not change it.
    pub index: u32,
    /// The name of the model, such as `NVIDIA H200`.
    pub name: String,
    /// The percentage of the last sample period during which a kernel ran; none where the GPU does not
    /// count it (one that is split into instances).
    pub utilization: Option<u32>,
    /// Bytes of its memory in use, the driver's own share included.
    pub memory_used: u64,
    /// Bytes of its memory.
    pub memory_total: u64,
    /// The power that it draws, in milliwatts; none where it does not say.
    pub power: Option<u32>,
    /// Degrees Celsius; none where it does not say.
    pub temperature: Option<u32>,
    /// The usage of this GPU by each process.
    pub processes: Vec<Part>,
}

/// The usage of a GPU by one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Part {
    /// The process id where the driver runs, by which a container may not know it.
    pub pid: u32,
    /// Bytes of the GPU's memory.
    pub memory: u64,
    /// The percentage of the latest sample period during which its kernels ran.
    pub utilization: u32,
}

/// The loaded library.
#[derive(Debug)]
pub struct Nvml {
    count: GetCount,
    handle: GetHandle,
    name: GetName,
    utilization: GetUtilization,
    memory: GetMemory,
    // Old drivers lack some of these.
    power: Option<GetPower>,
    temperature: Option<GetTemperature>,
    processes: Option<GetProcesses>,
    samples: Option<GetSamples>,
}

impl Nvml {
    /// Loads and initializes a library. None where it is not installed, lacks a function, or finds no
    /// driver.
    #[must_use]
    pub fn open(library: &CStr) -> Option<Self> {
        // SAFETY: the name ends with a zero byte; the driver's library may run its constructors here.
        let library = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return None;
        }
        let symbol = |name: &CStr| {
            // SAFETY: the library is loaded and never unloaded; the name ends with a zero byte.
            let address = unsafe { libc::dlsym(library, name.as_ptr()) };
            (!address.is_null()).then_some(address)
        };
        let init = symbol(c"nvmlInit_v2")?;
        let count = symbol(c"nvmlDeviceGetCount_v2")?;
        let handle = symbol(c"nvmlDeviceGetHandleByIndex_v2")?;
        let name = symbol(c"nvmlDeviceGetName")?;
        let utilization = symbol(c"nvmlDeviceGetUtilizationRates")?;
        let memory = symbol(c"nvmlDeviceGetMemoryInfo")?;
        let power = symbol(c"nvmlDeviceGetPowerUsage");
        let temperature = symbol(c"nvmlDeviceGetTemperature");
        let processes = symbol(c"nvmlDeviceGetComputeRunningProcesses_v3");
        let samples = symbol(c"nvmlDeviceGetProcessUtilization");
        // SAFETY: these are the functions' types in nvml.h, the same in every version of the library.
        let (init, nvml) = unsafe {
            use std::mem::transmute;
            (
                transmute::<*mut c_void, Init>(init),
                Self {
                    count: transmute::<*mut c_void, GetCount>(count),
                    handle: transmute::<*mut c_void, GetHandle>(handle),
                    name: transmute::<*mut c_void, GetName>(name),
                    utilization: transmute::<*mut c_void, GetUtilization>(utilization),
                    memory: transmute::<*mut c_void, GetMemory>(memory),
                    power: power.map(|at| transmute::<*mut c_void, GetPower>(at)),
                    temperature: temperature.map(|at| transmute::<*mut c_void, GetTemperature>(at)),
                    processes: processes.map(|at| transmute::<*mut c_void, GetProcesses>(at)),
                    samples: samples.map(|at| transmute::<*mut c_void, GetSamples>(at)),
                },
            )
        };
        // SAFETY: it takes nothing and may be called at any time.
        (unsafe { init() } == SUCCESS).then_some(nvml)
    }

    /// Reads each GPU; those that do not answer are left out.
    #[must_use]
    pub fn read(&self) -> Vec<Gpu> {
        let mut count = 0;
        // SAFETY: the library is initialized, and the pointer is to a number of this type.
        if unsafe { (self.count)(&raw mut count) } != SUCCESS {
            return Vec::new();
        }
        (0..count.min(GPUS_MAX)).filter_map(|index| self.gpu(index)).collect()
    }

    fn gpu(&self, index: c_uint) -> Option<Gpu> {
        let mut device: Device = std::ptr::null_mut();
        let mut name = [0_u8; NAME_BYTES];
        let (mut utilization, mut memory) = (Utilization::default(), Memory::default());
        // SAFETY: the library is initialized; every pointer is to a value of the type that nvml.h states,
        // and the handle is used only after it was written.
        let counts = unsafe {
            if (self.handle)(index, &raw mut device) != SUCCESS
                || (self.memory)(device, &raw mut memory) != SUCCESS
            {
                return None;
            }
            // A name that cannot be had stays empty. The last byte stays zero.
            (self.name)(device, name.as_mut_ptr().cast(), NAME_BYTES as c_uint - 1);
            (self.utilization)(device, &raw mut utilization) == SUCCESS
        };
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Some(Gpu {
            index,
            name: name.to_string_lossy().into_owned(),
            utilization: counts.then_some(utilization.gpu),
            memory_used: memory.used,
            memory_total: memory.total,
            power: self.number(|into| {
                // SAFETY: as above.
                self.power.map(|power| unsafe { power(device, into) })
            }),
            temperature: self.number(|into| {
                // SAFETY: as above.
                self.temperature.map(|get| unsafe { get(device, OF_THE_GPU, into) })
            }),
            processes: self.parts(device),
        })
    }

    /// Returns the number that a function writes, if there is such a function and it answers.
    fn number(&self, ask: impl FnOnce(*mut c_uint) -> Option<c_int>) -> Option<u32> {
        let mut value = 0;
        (ask(&raw mut value) == Some(SUCCESS)).then_some(value)
    }

    /// The processes that use a GPU.
    fn parts(&self, device: Device) -> Vec<Part> {
        let Some(get) = self.processes else { return Vec::new() };
        let mut infos = vec![ProcessInfo::default(); PROCESSES_MAX];
        let mut count = PROCESSES_MAX as c_uint;
        // SAFETY: the library is initialized, the handle is one of its, and it writes at most `count` values.
        if unsafe { get(device, &raw mut count, infos.as_mut_ptr()) } != SUCCESS {
            return Vec::new();
        }
        infos.truncate(count as usize);
        let samples = self.samples_of(device);
        let part = |info: &ProcessInfo| {
            let newest = samples.iter().filter(|one| one.pid == info.pid).max_by_key(|one| one.at);
            Part {
                pid: info.pid,
                memory: if info.used == UNKNOWN { 0 } else { info.used },
                utilization: newest.map_or(0, |one| one.kernels.min(100)),
            }
        };
        infos.iter().map(part).collect()
    }

    /// Returns the recent use of a GPU by process; empty where no process used it, or it does not
    /// count that.
    fn samples_of(&self, device: Device) -> Vec<ProcessSample> {
        let Some(get) = self.samples else { return Vec::new() };
        let mut samples = vec![ProcessSample::default(); PROCESSES_MAX];
        let mut count = PROCESSES_MAX as c_uint;
        // SAFETY: as in `parts`; 0: all samples that the driver keeps.
        if unsafe { get(device, samples.as_mut_ptr(), &raw mut count, 0) } != SUCCESS {
            return Vec::new();
        }
        samples.truncate(count as usize);
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_or_is_another_one_is_none() {
        assert!(Nvml::open(c"libheliostat-no-such-library.so.1").is_none());
        assert!(Nvml::open(c"libc.so.6").is_none(), "a library without NVML's functions");
    }
}
