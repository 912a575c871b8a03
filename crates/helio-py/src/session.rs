//! The session that this process is in: made by `connect` or `run_worker`, gone after `shutdown`.
//!
//! Objects that outlive their session (references, handles, prepared calls) remember its epoch and do
//! nothing, or prepare again, when it is not the present one.
//!
//! A driver outside its clusters may be in several sessions: one is the process's, others are beside it, and a
//! thread may choose one of these as its present one.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use helio_config::table::MAX_LINEAGE_BYTES;
use helio_env::logs;
use helio_proto::node::JobConfig;
use helio_types::WorkerId;
use helio_worker::{Options, Runtime};
use parking_lot::RwLock;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::gil::{GilSite, detached};
use crate::ids;
use crate::rows;
use crate::{environment, exceptions};

/// A session of this process.
pub(crate) struct Session {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) epoch: u32,
    pub(crate) is_driver: bool,
}

/// Locked for the blink of a clone, a swap or the drop of a handle, never while anything is waited for.
static SESSION: RwLock<Option<Arc<Session>>> = RwLock::new(None);
/// The sessions beside it.
static BESIDE: RwLock<Vec<Arc<Session>>> = RwLock::new(Vec::new());
/// The epoch of the process's session, another one while it has none. 0: there never was one.
static EPOCH: AtomicU32 = AtomicU32::new(0);
/// The last epoch that was given out, to a session or to the time after one.
static EPOCHS: AtomicU32 = AtomicU32::new(0);
/// Some thread has chosen a session: until then nobody need look for choices.
static CHOICES: AtomicBool = AtomicBool::new(false);
/// Raised with every session, and when the running task captures its children into another placement
/// group: what calls were prepared for.
static PLANS: AtomicU32 = AtomicU32::new(0);
/// Whether this process is a copy that user code has forked: the connection is its parent's.
static FORKED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The epoch of the session that this thread has chosen; 0: it has chosen none.
    static CHOSEN: Cell<u32> = const { Cell::new(0) };
}

/// The session that this thread has chosen; `None`: it goes by the process.
fn chosen() -> Option<u32> {
    if !CHOICES.load(Ordering::Relaxed) {
        return None;
    }
    Some(CHOSEN.get()).filter(|epoch| *epoch > 0)
}

/// The present session, if there is one.
pub(crate) fn present() -> Option<Arc<Session>> {
    match chosen() {
        Some(epoch) => of_epoch(epoch),
        None => SESSION.read().clone(),
    }
}

/// The session of that epoch, if this process is still in it.
pub(crate) fn of_epoch(epoch: u32) -> Option<Arc<Session>> {
    // The load saves a lock for what outlived its session.
    if EPOCH.load(Ordering::Relaxed) == epoch {
        return SESSION.read().clone().filter(|session| session.epoch == epoch);
    }
    if !CHOICES.load(Ordering::Relaxed) {
        return None;
    }
    BESIDE.read().iter().find(|session| session.epoch == epoch).cloned()
}

/// Acts on the session of an epoch as [`of_epoch`] does, without its clone: for what is quick and begins or ends no
/// session.
pub(crate) fn in_epoch(epoch: u32, act: impl FnOnce(&Session)) {
    if EPOCH.load(Ordering::Relaxed) != epoch {
        if CHOICES.load(Ordering::Relaxed)
            && let Some(session) = of_epoch(epoch)
        {
            act(&session);
        }
    } else if let Some(session) = SESSION.read().as_deref()
        && session.epoch == epoch
    {
        act(session);
    }
}

/// The present session; when there is none, Python begins one or raises.
pub(crate) fn active(py: Python<'_>) -> PyResult<Arc<Session>> {
    if let Some(session) = present() {
        return Ok(session);
    }
    py.import("heliostat.core.session")?.call_method0("ensure")?;
    connected(py)
}

/// The present session; an error when there is none.
pub(crate) fn connected(py: Python<'_>) -> PyResult<Arc<Session>> {
    present().ok_or_else(|| {
        let message = "Ray has not been started yet. You can start Ray with 'ray.init()'.";
        exceptions::named(py, "RaySystemError", message)
    })
}

/// Changes when prepared calls have to be prepared again.
pub(crate) fn plans_epoch() -> u32 {
    PLANS.load(Ordering::Relaxed)
}

/// Prepared calls are to be prepared again.
pub(crate) fn forget_plans() {
    PLANS.fetch_add(1, Ordering::Relaxed);
}

impl Session {
    /// The namespace in which named actors are looked for.
    pub(crate) fn namespace(&self) -> String {
        let namespace = self.runtime.job().namespace;
        if namespace.is_empty() { self.runtime.session().namespace.clone() } else { namespace }
    }
}

/// Joins a daemon and makes that the process's session.
pub(crate) fn begin(py: Python<'_>, options: Options) -> PyResult<Arc<Session>> {
    if SESSION.read().is_some() {
        return Err(PyRuntimeError::new_err("this process is in a session already"));
    }
    let session = join(py, options)?;
    EPOCH.store(session.epoch, Ordering::Relaxed);
    *SESSION.write() = Some(Arc::clone(&session));
    Ok(session)
}

/// Joins a daemon beside whatever sessions there are, and chooses that one for this thread.
fn begin_beside(py: Python<'_>, options: Options) -> PyResult<()> {
    let session = join(py, options)?;
    CHOICES.store(true, Ordering::Relaxed);
    CHOSEN.set(session.epoch);
    BESIDE.write().push(session);
    Ok(())
}

fn join(py: Python<'_>, options: Options) -> PyResult<Arc<Session>> {
    watch_forks(py)?;
    let is_driver = options.is_driver;
    let runtime = detached(py, GilSite::Connect, |_| Runtime::connect(options))?
        .map_err(|error| exceptions::connecting(py, &error))?;
    start_log(&runtime, is_driver);
    let epoch = next_epoch();
    forget_plans();
    FORKED.store(false, Ordering::Relaxed);
    Ok(Arc::new(Session { runtime, epoch, is_driver }))
}

fn next_epoch() -> u32 {
    EPOCHS.fetch_add(1, Ordering::Relaxed) + 1
}

/// The file is called as Ray's is. A driver on a machine without the session's folder has no log.
fn start_log(runtime: &Runtime, is_driver: bool) {
    let registered = runtime.session();
    let kind = if is_driver { "driver" } else { "worker" };
    let (worker_id, pid) = (runtime.address().worker_id, std::process::id());
    let name = format!("python-core-{kind}-{worker_id}_{pid}.log");
    logs::start(PathBuf::from(&registered.session_dir).join("logs").join(name));
    let (node_id, job_id) = (registered.node_id, registered.job_id);
    tracing::info!(%worker_id, %node_id, %job_id, "joined the session");
}

/// Has every copy of this process let go of the session.
fn watch_forks(py: Python<'_>) -> PyResult<()> {
    static DONE: PyOnceLock<()> = PyOnceLock::new();
    if DONE.set(py, ()).is_err() {
        return Ok(());
    }
    let keywords = PyDict::new(py);
    let forget = py.import("heliostat._heliostat")?.getattr("_after_fork")?;
    keywords.set_item("after_in_child", forget)?;
    py.import("os")?.getattr("register_at_fork")?.call((), Some(&keywords)).map(drop)
}

/// In the copy: forgets the session without ending it. Its sockets are the parent's too, so that
/// nothing may be sent on them, not even a farewell.
#[pyfunction]
pub(crate) fn _after_fork() {
    FORKED.store(true, Ordering::Relaxed);
    EPOCH.store(next_epoch(), Ordering::Relaxed);
    CHOSEN.set(0);
    forget_plans();
    // A thread that was in the middle of a clone holds the lock for ever here.
    if let Some(mut session) = SESSION.try_write() {
        std::mem::forget(session.take());
    }
    if let Some(mut beside) = BESIDE.try_write() {
        std::mem::forget(std::mem::take(&mut *beside));
    }
}

/// Whether this process is a copy of the one that joined the session.
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// A namespace that nobody else has.
fn anonymous() -> PyResult<String> {
    let mut bytes = [0; 16];
    ids::random(&mut bytes)?;
    let hex: Vec<String> =
        bytes.chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1])).collect();
    Ok(format!(
        "{}{}-{}-{}-{}-{}{}{}",
        hex[0], hex[1], hex[2], hex[3], hex[4], hex[5], hex[6], hex[7]
    ))
}

/// Join the daemon as a driver; with `beside`, in a session that threads choose.
#[pyfunction]
#[pyo3(signature = (*, node_socket, token, namespace = "", entrypoint = "", log_to_driver = true, owns_cluster = false,
    sys_path = Vec::new(), cwd = "", runtime_env = "", script = "", entrance = 0,
    beside = false))]
#[expect(clippy::too_many_arguments, reason = "keywords of the Python function, packed at once")]
pub(crate) fn connect(
    py: Python<'_>,
    node_socket: PathBuf,
    token: &str,
    namespace: &str,
    entrypoint: &str,
    log_to_driver: bool,
    owns_cluster: bool,
    sys_path: Vec<String>,
    cwd: &str,
    runtime_env: &str,
    script: &str,
    entrance: u16,
    beside: bool,
) -> PyResult<()> {
    // Names of actors are the job's own unless the user says otherwise.
    let namespace = &if namespace.is_empty() { anonymous()? } else { namespace.to_owned() };
    let job = JobConfig {
        sys_path,
        cwd: cwd.to_owned(),
        namespace: namespace.to_owned(),
        runtime_env: environment::read(runtime_env)?,
        script: script.to_owned(),
        ..JobConfig::default()
    };
    let options = Options {
        node_socket,
        token: token.to_owned(),
        worker_id: WorkerId::NIL,
        is_driver: true,
        namespace: namespace.to_owned(),
        entrypoint: entrypoint.to_owned(),
        log_to_driver,
        owns_cluster,
        entrance,
        job,
        lineage_bytes_max: lineage_bytes_max()?,
    };
    if beside { begin_beside(py, options) } else { begin(py, options).map(drop) }
}

/// Reads the limit of the remembered calls from the environment, in bytes.
pub(crate) fn lineage_bytes_max() -> PyResult<Option<usize>> {
    let bytes = helio_env::settings::read(&MAX_LINEAGE_BYTES).map_err(PyValueError::new_err)?;
    Ok(Some(usize::try_from(bytes).unwrap_or(usize::MAX)))
}

/// Leave the present session; idempotent.
#[pyfunction]
pub(crate) fn shutdown(py: Python<'_>) -> PyResult<()> {
    let left = match chosen().filter(|epoch| *epoch != EPOCH.load(Ordering::Relaxed)) {
        Some(epoch) => {
            let mut beside = BESIDE.write();
            let place = beside.iter().position(|session| session.epoch == epoch);
            place.map(|place| beside.swap_remove(place))
        }
        None => {
            let left = SESSION.write().take();
            if left.is_some() {
                EPOCH.store(next_epoch(), Ordering::Relaxed);
            }
            left
        }
    };
    let Some(session) = left else { return Ok(()) };
    tracing::info!("leaving the session");
    forget_plans();
    detached(py, GilSite::Shutdown, |_| session.runtime.shutdown())
}

#[pyfunction]
pub(crate) fn is_connected() -> bool {
    match chosen() {
        Some(epoch) => of_epoch(epoch).is_some(),
        None => SESSION.read().is_some(),
    }
}

/// The epoch of the present session.
#[pyfunction]
pub(crate) fn session_epoch() -> u32 {
    chosen().unwrap_or_else(|| EPOCH.load(Ordering::Relaxed))
}

/// From here on the session of that epoch is this thread's present one; 0: that of the process. What it chose before.
#[pyfunction]
pub(crate) fn choose_session(epoch: u32) -> u32 {
    if epoch > 0 {
        CHOICES.store(true, Ordering::Relaxed);
    }
    CHOSEN.replace(epoch)
}

/// Facts about this process: its ids, its node, and its session's folder and addresses.
#[pyfunction]
pub(crate) fn session(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let session = connected(py)?;
    let runtime = &session.runtime;
    let registered = runtime.session();
    let dict = PyDict::new(py);
    dict.set_item("node_id", registered.node_id.hex())?;
    dict.set_item("worker_id", runtime.address().worker_id.hex())?;
    dict.set_item("job_id", runtime.job().job_id.hex())?;
    dict.set_item("host", &registered.host)?;
    dict.set_item("session_dir", &registered.session_dir)?;
    dict.set_item("session_name", &registered.session_name)?;
    dict.set_item("temp_dir", &registered.temp_dir)?;
    dict.set_item("control_address", &registered.control_address)?;
    dict.set_item("namespace", session.namespace())?;
    dict.set_item("labels", rows::labels(py, &registered.labels)?)?;
    dict.set_item("total", rows::resources(py, &registered.total)?)?;
    dict.set_item("runtime_env", runtime.job().runtime_env.document)?;
    dict.set_item("is_driver", session.is_driver)?;
    Ok(dict)
}
