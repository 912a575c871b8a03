//! The options of the node service, of arguments and settings.

use std::sync::{Arc, mpsc};

use helio_config::table;
use helio_env::settings::{read, text};
use helio_node::{Bounds, Head, Options};

use super::given::Given;
use super::joined::Joined;
use crate::args::Node;
use crate::session::Session;
use crate::settings;

/// The options; `moved` hears of another head.
///
/// # Errors
/// A sentence about a setting.
pub(super) fn of_node(
    args: &Node,
    given: &Given,
    joined: &Joined,
    session: &Session,
    moved: mpsc::Sender<String>,
) -> Result<Options, String> {
    let Given { offer, .. } = given;
    let is_guest = joined.guest.is_some();
    Ok(Options {
        host: joined.host.clone(),
        listener: joined.port.listener(),
        num_cpus: offer.num_cpus,
        num_gpus: offer.num_gpus,
        resources: given.resources.clone(),
        labels: given.labels.clone(),
        object_store_memory: offer.object_store_memory,
        store_part: read(&table::DEFAULT_OBJECT_STORE_MEMORY_PROPORTION)?,
        store_max: read(&table::DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES)?,
        memory: offer.memory,
        memory_usage_threshold: read(&table::MEMORY_USAGE_THRESHOLD)?,
        arguments_part: read(&table::MAX_TASK_ARGS_MEMORY_FRACTION)?,
        output_bounds: Bounds {
            file_max: read(&table::ROTATION_MAX_BYTES)?,
            backups_max: read(&table::ROTATION_BACKUP_COUNT)?,
            session_max: read(&table::WORKER_OUTPUT_MAX_BYTES)?,
        },
        disk_threshold: read(&table::LOCAL_FS_CAPACITY_THRESHOLD)?,
        spills_max: usize::try_from(read(&table::MAX_IO_WORKERS)?).unwrap_or(usize::MAX),
        room_ms_max: (read(&table::OOM_GRACE_PERIOD_S)? * 1000.0) as u64,
        memory_monitor_refresh_ms: settings::memory_monitor_refresh_ms()?,
        memory_group: text(&table::MEMORY_CGROUP).map(Into::into),
        metrics_port: offer.metrics_export_port.or((!given.is_local && !is_guest).then_some(0)),
        agent_port: offer.dashboard_agent_listen_port.filter(|port| *port > 0),
        instance_id: text(&table::CLOUD_INSTANCE_ID).unwrap_or_default(),
        session_dir: session.dir.clone(),
        spill_dir: session.spill_dir(offer.object_spilling_directory.as_deref())?,
        packages: joined.packages.clone(),
        session_name: joined.control.session_name.clone(),
        temp_dir: given.temp_dir.clone(),
        python: args.python.clone(),
        package_path: None,
        token: given.token.clone(),
        identity: joined.identity.clone(),
        control: joined.control.reach.clone(),
        head: Arc::new(Head::new(moved)),
        control_address: joined.control.address.clone(),
        headless_ms_max: match &joined.guest {
            // The gateway decides when it is over.
            Some(guest) => u64::try_from(guest.grace.as_millis()).unwrap_or(u64::MAX),
            None => settings::headless_ms_max()?,
        },
        preemption_grace_ms: settings::preemption_grace_ms()?,
        owner_driver: args.owner_driver,
        node_name: offer.node_name.clone().unwrap_or_default(),
        is_head: args.head,
        guest: joined.guest_node.clone(),
    })
}
