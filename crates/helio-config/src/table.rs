//! The table of settings: one entry each, in the order of the reference page.
//!
//! The entries `Knob` are configuration names of Ray's, which `init(_system_config=…)` takes, too.

use crate::control::{HEADLESS_MS_MAX, HEARTBEAT_MS, HEARTBEATS_MISSED_MAX};
use crate::dashboard::JOB_GRACE_S;
use crate::process::LINEAGE_BYTES_MAX;
use crate::setting::{Names, Row, Setting, Shape};

const DAEMON: &str = "node daemon";
const HEAD: &str = "control service";
const DRIVER: &str = "driver";
const PROCESS: &str = "driver, workers";
const LOGGERS: &str = "node daemon, driver, workers";
const ALL: &str = "driver, daemon, commands";
const WORKERS: &str = "workers";
const TRAIN: &str = "driver of a training run";
const TUNE: &str = "driver of a tuning run";

const MIB: i64 = 1 << 20;

/// The longest time and the largest size that a number may say; more is taken for a slip of the keys.
const TIME_MS_MAX: i64 = 1_000_000_000_000;

macro_rules! type_of {
    (count) => {
        u64
    };
    (whole) => {
        i64
    };
    (number) => {
        f64
    };
    (flag) => {
        bool
    };
    (text) => {
        String
    };
    (choice) => {
        String
    };
}

macro_rules! shape_of {
    (count, $default:expr, $min:expr, $max:expr) => {
        Shape::Whole { default: $default, min: $min, max: $max }
    };
    (whole, $default:expr, $min:expr, $max:expr) => {
        Shape::Whole { default: $default, min: $min, max: $max }
    };
    (number, $default:expr, $min:expr, $max:expr) => {
        Shape::Number { default: $default, min: $min, max: $max }
    };
    (flag, $default:expr) => {
        Shape::Flag { default: $default }
    };
    (text, $default:expr) => {
        Shape::Text { default: $default }
    };
    (choice, $default:expr, $of:expr) => {
        Shape::Choice { default: $default, of: $of }
    };
}

/// `IDENT = Names "name" kind(default, bounds) "unit", read by;` under the lines that say what it means.
macro_rules! settings {
    ($($section:ident $title:literal {
        $($(#[doc = $about:literal])+ $ident:ident = $names:ident $name:literal $kind:ident($($value:expr),+) $unit:literal, $read_by:expr;)+
    })+) => {
        $($(
            $(#[doc = $about])+
            pub static $ident: Setting<type_of!($kind)> = Setting::new(Row {
                name: $name,
                names: Names::$names,
                shape: shape_of!($kind, $($value),+),
                unit: $unit,
                read_by: $read_by,
                about: concat!($($about),+),
            });
        )+
        static $section: &[&Row] = &[$(&$ident.row),+];
        )+

        /// Sections of the reference page.
        pub static SECTIONS: &[(&str, &[&Row])] = &[$(($title, $section)),+];
    };
}

settings! {
    CLUSTER "Clusters and sessions" {
        /// The cluster that `init()` and the commands connect to; "auto" is the one that runs here, "local" a new one.
        ADDRESS = Both "ADDRESS" text("") "host:port, auto or local", ALL;
        /// The time for which `symmetric-run` waits for the head, and the head for the other nodes.
        SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT = Ray "SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT" count(30, 1, 86_400) "s", "commands";
        /// The namespace of a driver that names none.
        NAMESPACE = Both "NAMESPACE" text("") "", DRIVER;
        /// The head's HTTP server that `ray job` and `JobSubmissionClient` talk to; wins over ADDRESS there.
        API_SERVER_ADDRESS = Both "API_SERVER_ADDRESS" text("") "URL", "driver, commands";
        /// The head's HTTP server that `serve deploy`, `serve status` and `serve config` talk to.
        DASHBOARD_ADDRESS = Both "DASHBOARD_ADDRESS" text("http://localhost:8265") "URL", "commands";
        /// 1: where a job and `init()` in it both give a runtime environment, that of `init()` may replace the job's.
        OVERRIDE_JOB_RUNTIME_ENV = Both "OVERRIDE_JOB_RUNTIME_ENV" flag(false) "", DRIVER;
        /// The time for which a job does not try again to install the packages of a runtime environment, once that failed.
        BAD_RUNTIME_ENV_CACHE_TTL_SECONDS = Both "BAD_RUNTIME_ENV_CACHE_TTL_SECONDS" count(600, 0, TIME_MS_MAX) "s", WORKERS;
        /// Headers that `ray job` sends with its requests.
        JOB_HEADERS = Ray "JOB_HEADERS" text("") "JSON object", "commands";
        /// The time between SIGTERM and SIGKILL for a job that is stopped.
        JOB_STOP_WAIT_TIME_S = Both "JOB_STOP_WAIT_TIME_S" count(JOB_GRACE_S as i64, 0, TIME_MS_MAX) "s", HEAD;
        /// Names under which a browser may reach the head's HTTP server, besides its own address.
        DASHBOARD_NAMES = Own "DASHBOARD_NAMES" text("") "names, separated by commas", HEAD;
        /// 1: though USE_TLS encrypts, the head's HTTP server answers requests of other machines in the clear as well, as
        /// KubeRay's operator sends them for its jobs and services.
        DASHBOARD_PLAIN_HTTP = Own "DASHBOARD_PLAIN_HTTP" flag(false) "", HEAD;
        /// The collector to which the head posts the cluster's events, in Ray's form: that of KubeRay's history server.
        /// Unset: none.
        EVENTS_EXPORT_ADDRESS = Ray "DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR" text("") "http://host:port/path", HEAD;
        /// The kinds of those events; `ALL`. Unset: all but TASK_PROFILE_EVENT.
        EVENTS_EXPORT_TYPES = Ray "DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES" text("") "names, separated by commas", HEAD;
        /// The same, as releases of Ray before 2.54 and KubeRay's examples name it.
        EVENTS_EXPORT_TYPES_OLD = Ray "DASHBOARD_AGGREGATOR_AGENT_PUBLISHER_HTTP_ENDPOINT_EXPOSABLE_EVENT_TYPES" text("") "names, separated by commas", HEAD;
        /// The collector to which every node sends its measurements in the form of OpenTelemetry, OTLP over HTTP as JSON;
        /// without a path it is /v1/metrics there; empty: none.
        OTLP_METRICS = Own "OTLP_METRICS" text("") "http://host:port", DAEMON;
        /// The time between two sendings of measurements to that collector.
        OTLP_METRICS_EVERY_S = Own "OTLP_METRICS_EVERY_S" count(10, 1, 3600) "s", DAEMON;
        /// The place where a head that serves a dashboard writes the cluster's history: a folder, in which it makes one of the session's
        /// name; s3://BUCKET/FOLDER: within the session's folder, and a copy there; empty: within the session's folder
        /// alone; 0: nowhere.
        HISTORY = Own "HISTORY" text("") "folder", HEAD;
        /// The Kubernetes cluster's name of this cluster: a head is known to browsers by the names of its service, too.
        CLUSTER_NAME = Ray "CLUSTER_NAME" text("") "", HEAD;
        /// The kind of machine that the node is, as an autoscaler calls it: its label `ray.io/node-group`.
        NODE_TYPE_NAME = Ray "NODE_TYPE_NAME" text("") "", DAEMON;
        /// The node's label `ray.io/market-type`: how the machine was bought, such as `spot`.
        NODE_MARKET_TYPE = Ray "NODE_MARKET_TYPE" text("") "", DAEMON;
        /// The node's label `ray.io/availability-region`: the region of the machine.
        NODE_REGION = Ray "NODE_REGION" text("") "", DAEMON;
        /// The node's label `ray.io/availability-zone`: the zone of the machine.
        NODE_ZONE = Ray "NODE_ZONE" text("") "", DAEMON;
        /// The folder in which the folder of sessions, `ray`, is made.
        TMPDIR = Both "TMPDIR" text("/tmp") "folder", ALL;
        /// disabled: the cluster asks nobody for a token, so that whoever reaches one of its ports can run any code.
        AUTH_MODE = Both "AUTH_MODE" choice("token", &["token", "disabled"]) "", ALL;
        /// The cluster's token, which every connection shows.
        AUTH_TOKEN = Both "AUTH_TOKEN" text("") "", ALL;
        /// A file with the cluster's token, for processes without AUTH_TOKEN; none: `~/.heliostat/auth_token`.
        AUTH_TOKEN_PATH = Both "AUTH_TOKEN_PATH" text("") "file", ALL;
        /// 1: connections between machines are encrypted, and both ends show a certificate; set it on all of them.
        USE_TLS = Ray "USE_TLS" flag(false) "", ALL;
        /// The certificate that this machine shows, and those between it and the authority.
        TLS_SERVER_CERT = Ray "TLS_SERVER_CERT" text("") "PEM file", ALL;
        /// The private key of that certificate.
        TLS_SERVER_KEY = Ray "TLS_SERVER_KEY" text("") "PEM file", ALL;
        /// The authorities whose certificates are believed.
        TLS_CA_CERT = Ray "TLS_CA_CERT" text("") "PEM file", ALL;
        /// 0: calls before `init()` raise an error instead of starting a session.
        ENABLE_AUTO_CONNECT = Both "ENABLE_AUTO_CONNECT" flag(true) "", DRIVER;
        /// Resources of the node, which replace those of its flags and of its machine.
        OVERRIDE_RESOURCES = Both "OVERRIDE_RESOURCES" text("") "JSON object", DAEMON;
        /// Labels of the node, which replace its own of the same key.
        OVERRIDE_LABELS = Both "OVERRIDE_LABELS" text("") "JSON object", "driver, node daemon";
        /// The store in which the head keeps the cluster's state, so that another head can go on with it: `redis://HOST:PORT` or
        /// `etcd://HOST:PORT,HOST:PORT`, encrypted with `rediss://` and `etcds://`; wins over REDIS_ADDRESS. None: a file
        /// of the session.
        CONTROL_STORE = Own "CONTROL_STORE" text("") "URL", HEAD;
        /// The authorities whose certificates are believed of such a store; none: those of the system.
        CONTROL_STORE_CA_CERT = Own "CONTROL_STORE_CA_CERT" text("") "PEM file", HEAD;
        /// The certificate that the head shows to a store that asks for one.
        CONTROL_STORE_CLIENT_CERT = Own "CONTROL_STORE_CLIENT_CERT" text("") "PEM file", HEAD;
        /// The private key of that certificate.
        CONTROL_STORE_CLIENT_KEY = Own "CONTROL_STORE_CLIENT_KEY" text("") "PEM file", HEAD;
        /// The time for which a silent head keeps the state in a store from other heads.
        CONTROL_LEASE_MS = Own "CONTROL_LEASE_MS" count(5_000, 300, 600_000) "ms", HEAD;
        /// The Redis in which the head keeps the cluster's state: host:port, or a URL.
        REDIS_ADDRESS = Ray "REDIS_ADDRESS" text("") "host:port", HEAD;
        /// The user to log in as there.
        REDIS_USERNAME = Ray "REDIS_USERNAME" text("") "", HEAD;
        /// The password to log in with there.
        REDIS_PASSWORD = Ray "REDIS_PASSWORD" text("") "", HEAD;
        /// As CONTROL_STORE_CA_CERT, for Redis.
        REDIS_CA_CERT = Ray "REDIS_CA_CERT" text("") "PEM file", HEAD;
        /// As CONTROL_STORE_CLIENT_CERT, for Redis.
        REDIS_CLIENT_CERT = Ray "REDIS_CLIENT_CERT" text("") "PEM file", HEAD;
        /// As CONTROL_STORE_CLIENT_KEY, for Redis.
        REDIS_CLIENT_KEY = Ray "REDIS_CLIENT_KEY" text("") "PEM file", HEAD;
        /// The part of a store that this cluster uses: clusters of several namespaces do not see each other.
        EXTERNAL_STORAGE_NAMESPACE = Ray "external_storage_namespace" text("default") "", HEAD;
        /// The time for which `start --address` waits for a head that cannot be reached yet.
        JOIN_WAIT_S = Own "JOIN_WAIT_S" count(300, 0, 1_000_000_000) "s", "commands";
        /// Folders of ended sessions that are kept for their logs; 0: all.
        SESSIONS_KEPT_MAX = Own "SESSIONS_KEPT_MAX" count(20, 0, 1_000_000) "sessions", DAEMON;
        /// The number of days for which the folder of an ended session is kept; 0: for ever.
        SESSIONS_KEPT_DAYS = Own "SESSIONS_KEPT_DAYS" number(7.0, 0.0, f64::MAX) "days", DAEMON;
        /// The program `heliostat` that a driver starts instead of the package's own.
        BINARY = Own "BINARY" text("") "file", DRIVER;
        /// The interpreter that workers run; `heliostat start` sets it to its own.
        PYTHON = Own "PYTHON" text("python3") "file", DAEMON;
        /// The folder that holds the package `heliostat`, when the daemon's program lies elsewhere.
        PACKAGE_PATH = Own "PACKAGE_PATH" text("") "folder", DAEMON;
        /// The identifier of the machine that a cloud gave it, as `get_node_instance_id` returns it.
        CLOUD_INSTANCE_ID = Ray "CLOUD_INSTANCE_ID" text("") "", ALL;
    }
    LIVENESS "Liveness of nodes" {
        /// The time between two reports of a node to the control service; the head's value counts for all nodes.
        HEALTH_CHECK_PERIOD_MS = Knob "health_check_period_ms" count(HEARTBEAT_MS as i64, 1, TIME_MS_MAX) "ms", HEAD;
        /// A node that misses so many reports in a row is declared dead.
        HEALTH_CHECK_FAILURE_THRESHOLD = Knob "health_check_failure_threshold" count(HEARTBEATS_MISSED_MAX as i64, 1, 1_000_000) "reports", HEAD;
        /// Added to the time after which a silent node is declared dead.
        HEALTH_CHECK_TIMEOUT_MS = Knob "health_check_timeout_ms" count(0, 0, TIME_MS_MAX) "ms", HEAD;
        /// Added to the time after which a node that has just joined is declared dead.
        HEALTH_CHECK_INITIAL_DELAY_MS = Knob "health_check_initial_delay_ms" count(0, 0, TIME_MS_MAX) "ms", HEAD;
        /// The time for which a node goes on without a control service before it gives up its workers; the head waits as long, and
        /// a little longer, for a node that only it misses.
        GCS_RPC_SERVER_RECONNECT_TIMEOUT_S = Knob "gcs_rpc_server_reconnect_timeout_s" count((HEADLESS_MS_MAX / 1000) as i64, 1, TIME_MS_MAX) "s", "control service, node daemon";
        /// The time for which the head keeps the session of a driver outside the cluster (`ray://`) whose connection broke.
        CLIENT_RECONNECT_GRACE_PERIOD = Both "CLIENT_RECONNECT_GRACE_PERIOD" count(1800, 0, 1_000_000) "s", "head";
        /// The time in which SIGTERM drains the node of a machine that may be taken away; three quarters of it are for
        /// what runs there. 0: the daemon ends at once.
        PREEMPTION_GRACE_S = Own "PREEMPTION_GRACE_S" number(0.0, 0.0, 1e6) "s", DAEMON;
    }
    MEMORY "Memory, object store and disk" {
        /// The part of the machine's memory beyond which the memory monitor ends a worker.
        MEMORY_USAGE_THRESHOLD = Knob "memory_usage_threshold" number(0.95, 0.0, 1.0) "part of the memory", DAEMON;
        /// The time between two looks of the memory monitor; 0: it never looks.
        MEMORY_MONITOR_REFRESH_MS = Knob "memory_monitor_refresh_ms" count(250, 0, TIME_MS_MAX) "ms", DAEMON;
        /// 1: no memory monitor.
        DISABLE_MEMORY_MONITOR = Both "DISABLE_MEMORY_MONITOR" flag(false) "", DAEMON;
        /// The control group whose memory the memory monitor reads instead of the daemon's own, for tests.
        MEMORY_CGROUP = Own "memory_cgroup" text("") "folder", DAEMON;
        /// The object store's part of the machine's memory, where `object_store_memory` is not given.
        DEFAULT_OBJECT_STORE_MEMORY_PROPORTION = Both "DEFAULT_OBJECT_STORE_MEMORY_PROPORTION" number(0.3, 0.0, 1.0) "part of the memory", DAEMON;
        /// The most that the object store takes, where `object_store_memory` is not given.
        DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES = Both "DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES" count(200_000_000_000, 0, i64::MAX) "bytes", DAEMON;
        /// The part of the object store that arguments of running tasks may take; 0: all of it.
        MAX_TASK_ARGS_MEMORY_FRACTION = Knob "max_task_args_memory_fraction" number(0.7, 0.0, 1.0) "part of the object store", DAEMON;
        /// The folder for spilled objects: `{"type": "filesystem", "params": {"directory_path": …}}`.
        OBJECT_SPILLING_CONFIG = Knob "object_spilling_config" text("") "JSON object", DRIVER;
        /// The number of objects that are written to disk at a time.
        MAX_IO_WORKERS = Knob "max_io_workers" count(4, 1, 10_000) "objects", DAEMON;
        /// The time for which an object waits for room while store and disk are full and no task ends, before its writer or
        /// reader gets ObjectStoreFullError or OutOfDiskError.
        OOM_GRACE_PERIOD_S = Knob "oom_grace_period_s" number(5.0, 0.0, 1e6) "s", DAEMON;
        /// The part of the disk that may be full before no more objects are spilled.
        LOCAL_FS_CAPACITY_THRESHOLD = Knob "local_fs_capacity_threshold" number(0.95, 0.0, 1.0) "part of the disk", DAEMON;
    }
    CALLS "Calls and references" {
        /// The number of retries of a task whose worker died, where `max_retries` is not given; -1: without end.
        TASK_MAX_RETRIES = Both "TASK_MAX_RETRIES" whole(3, -1, i64::MAX) "retries", DRIVER;
        /// The memory in which a process remembers finished calls, to repeat them for lost objects.
        MAX_LINEAGE_BYTES = Knob "max_lineage_bytes" count(LINEAGE_BYTES_MAX as i64, 0, i64::MAX) "bytes", PROCESS;
        /// 1: errors name the line that made a lost object; each reference costs a look at the stack.
        RECORD_REF_CREATION_SITES = Knob "record_ref_creation_sites" flag(false) "", PROCESS;
        /// 0: pickling a reference outside of a call or a `put` raises an error.
        ALLOW_OUT_OF_BAND_OBJECT_REF_SERIALIZATION = Knob "allow_out_of_band_object_ref_serialization" flag(true) "", PROCESS;
        /// The size beyond which a pickled function is refused.
        FUNCTION_SIZE_ERROR_THRESHOLD = Exact "FUNCTION_SIZE_ERROR_THRESHOLD" count(100_000_000, 1, i64::MAX) "bytes", DRIVER;
        /// The niceness of worker processes, 0 to 19: a higher one leaves more of the CPU to others. Also in `env_vars` of
        /// a runtime environment.
        WORKER_NICENESS = Knob "worker_niceness" whole(0, 0, 19) "", PROCESS;
        /// Modules that workers import before their first call.
        PRELOAD_PYTHON_MODULES = Knob "preload_python_modules" text("") "names, separated by commas", DRIVER;
        /// 0: no warning when a coroutine of an actor calls the blocking `get` or `wait`.
        WARN_BLOCKING_GET_INSIDE_ASYNC = Both "WARN_BLOCKING_GET_INSIDE_ASYNC" flag(true) "", "workers";
        /// The time that a worker which ends by itself has for what user code does then: `__ray_shutdown__`, `__del__`,
        /// handlers of `atexit`, ends of child processes.
        ACTOR_GRACEFUL_SHUTDOWN_TIMEOUT_MS = Knob "actor_graceful_shutdown_timeout_ms" count(30_000, 0, TIME_MS_MAX) "ms", "workers";
        /// The effect of `breakpoint()` in a worker: 1 waits for a client of debugpy, such as VS Code; legacy, for `ray
        /// debug`; 0 goes on.
        DEBUG = Both "DEBUG" choice("1", &["0", "1", "legacy"]) "", "workers";
        /// 1: a worker also waits for a debugger when a call ends with an error.
        DEBUG_POST_MORTEM = Both "DEBUG_POST_MORTEM" flag(false) "", "workers";
        /// The address at which a worker that waits for a debugger listens. Who reaches it can run any code in the worker.
        DEBUGGER_HOST = Both "DEBUGGER_HOST" text("127.0.0.1") "address", "workers";
    }
    ENVIRONMENTS "Runtime environments" {
        /// The largest working directory that is taken; 0: there is no limit.
        MAX_GRPC_MESSAGE_SIZE = Both "max_grpc_message_size" count(0, 0, i64::MAX) "bytes", DRIVER;
        /// The size of code packages that a node keeps beyond those that were used in the last ten minutes.
        RUNTIME_ENV_WORKING_DIR_CACHE_SIZE_GB = Both "RUNTIME_ENV_WORKING_DIR_CACHE_SIZE_GB" count(10, 0, 1 << 20) "GiB", "drivers and workers";
        /// Names that are left out of every copied working directory; empty: none.
        OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES = Both "OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES" text(".git,.venv,venv,__pycache__") "names, separated by commas", DRIVER;
        /// 1: `.gitignore` does not keep files out of a copied working directory.
        RUNTIME_ENV_IGNORE_GITIGNORE = Both "RUNTIME_ENV_IGNORE_GITIGNORE" flag(false) "", DRIVER;
    }
    LOGS "Logs" {
        /// The level of the logs of daemons, drivers and workers, in the session's folder `logs`: a log holds it and
        /// what is more important. Each process reads it in its own environment.
        BACKEND_LOG_LEVEL = Both "BACKEND_LOG_LEVEL" choice("info", &["trace", "debug", "info", "warning", "error", "fatal"]) "", LOGGERS;
        /// 1: those logs are lines of JSON, an object each.
        BACKEND_LOG_JSON = Both "BACKEND_LOG_JSON" flag(false) "", LOGGERS;
        /// After each so many events a daemon, the control service, a driver or a worker counts again what it keeps
        /// twice (resources and leases, objects and their holders), and logs an error where the two do not agree; 0:
        /// never. For finding a fault of Heliostat's: a recount takes as long as the tables are.
        RECOUNT_EVERY = Own "RECOUNT_EVERY" count(0, 0, i64::MAX) "events", "control service, node daemon, driver, workers";
        /// The size beyond which such a log, or the file with what a worker prints, is set aside and a new one begun;
        /// 0: never.
        ROTATION_MAX_BYTES = Both "ROTATION_MAX_BYTES" count(100 * MIB, 0, i64::MAX) "bytes", LOGGERS;
        /// The number of set-aside files that are kept of a process; beyond, the oldest is removed.
        ROTATION_BACKUP_COUNT = Both "ROTATION_BACKUP_COUNT" count(5, 0, 1_000) "files", LOGGERS;
        /// The limit of the files with the output of all workers of a node together; beyond, the oldest are removed
        /// that were set aside or whose worker has ended. 0: any.
        WORKER_OUTPUT_MAX_BYTES = Own "WORKER_OUTPUT_MAX_BYTES" count(10 * 1024 * MIB, 0, i64::MAX) "bytes", DAEMON;
        /// The level of the driver's logger `heliostat`; wins over `logging_level`.
        LOGGER_LEVEL = Both "LOGGER_LEVEL" text("") "level", DRIVER;
        /// "JSON": the driver and its workers log lines of JSON.
        LOGGING_CONFIG_ENCODING = Both "LOGGING_CONFIG_ENCODING" text("") "TEXT or JSON", DRIVER;
        /// 0: what workers print is not shown at the driver, where `log_to_driver` is not given.
        LOG_TO_DRIVER = Both "LOG_TO_DRIVER" flag(true) "", DRIVER;
        /// A function without parameters that sets OpenTelemetry up: calls of tasks and actors get spans.
        TRACING_STARTUP_HOOK = Both "TRACING_STARTUP_HOOK" text("") "module:function", DRIVER;
        /// 1: lines of workers are shown without prefix and without folding.
        LOG_TO_STDERR = Both "LOG_TO_STDERR" flag(false) "", DRIVER;
        /// 1: lines of workers are shown without prefix.
        DISABLE_WORKER_LOG_PREFIX = Both "DISABLE_WORKER_LOG_PREFIX" flag(false) "", DRIVER;
        /// Colours of the prefixes on a terminal: 1, one for each process; 0, none; auto, the same for all.
        COLOR_PREFIX = Both "COLOR_PREFIX" choice("auto", &["auto", "1", "0"]) "", DRIVER;
        /// 0: lines that many workers print alike are not folded into one.
        DEDUP_LOGS = Both "DEDUP_LOGS" flag(true) "", DRIVER;
        /// The time for which lines are gathered to be folded.
        DEDUP_LOGS_AGG_WINDOW_S = Both "DEDUP_LOGS_AGG_WINDOW_S" number(5.0, 0.0, f64::MAX) "s", DRIVER;
        /// Lines that match are never folded.
        DEDUP_LOGS_ALLOW_REGEX = Both "DEDUP_LOGS_ALLOW_REGEX" text("") "regular expression", DRIVER;
        /// Lines that match are never shown.
        DEDUP_LOGS_SKIP_REGEX = Both "DEDUP_LOGS_SKIP_REGEX" text("") "regular expression", DRIVER;
        /// 1: errors of calls whose results nobody reads are not shown.
        IGNORE_UNHANDLED_ERRORS = Both "IGNORE_UNHANDLED_ERRORS" flag(false) "", DRIVER;
    }
    DEVICES "Accelerators" {
        /// 1: a call without accelerators sees none; otherwise it sees those that the node sees.
        ACCEL_ENV_VAR_OVERRIDE_ON_ZERO = Ray "ACCEL_ENV_VAR_OVERRIDE_ON_ZERO" flag(false) "", "workers";
        /// The number of devices of the resource TPU that one chip has.
        TPU_RESOURCE_PER_CHIP = Ray "TPU_RESOURCE_PER_CHIP" count(1, 1, 1_000) "devices", "workers";
    }
    SERVE "Serve" {
        /// 1: `serve.run` runs applications within the driver, for tests.
        SERVE_FORCE_LOCAL_TESTING_MODE = Both "SERVE_FORCE_LOCAL_TESTING_MODE" flag(false) "", DRIVER;
        /// A function without parameters that returns OpenTelemetry's span processors: requests are traced.
        SERVE_TRACING_EXPORTER_IMPORT_PATH = Both "SERVE_TRACING_EXPORTER_IMPORT_PATH" text("") "module:name", DRIVER;
        /// The part of requests that is traced, where the client does not say whether its own is.
        SERVE_TRACING_SAMPLING_RATIO = Both "SERVE_TRACING_SAMPLING_RATIO" number(0.01, 0.0, 1.0) "", DRIVER;
    }
    DATA "Datasets" {
        /// The least number of blocks that a large read is split into.
        DATA_DEFAULT_MIN_PARALLELISM = Both "DATA_DEFAULT_MIN_PARALLELISM" whole(200, -1, 1_000_000_000) "blocks", DRIVER;
        /// An execution without any progress for so long fails; 0 or less: never.
        DATA_EXECUTION_NO_PROGRESS_TIMEOUT_S = Both "DATA_EXECUTION_NO_PROGRESS_TIMEOUT_S" number(1800.0, f64::MIN, f64::MAX) "s", DRIVER;
        /// The time for which an execution waits for the first actors of its pools before anything else runs; 0 or less: none.
        DATA_DEFAULT_WAIT_FOR_MIN_ACTORS_S = Both "DATA_DEFAULT_WAIT_FOR_MIN_ACTORS_S" number(-1.0, f64::MIN, f64::MAX) "s", DRIVER;
        /// 1: no progress bars.
        DATA_DISABLE_PROGRESS_BARS = Both "DATA_DISABLE_PROGRESS_BARS" flag(false) "", DRIVER;
        /// Sets a field of the DataContext, which changes nothing.
        DATA_PUSH_BASED_SHUFFLE = Both "DATA_PUSH_BASED_SHUFFLE" flag(false) "", DRIVER;
        /// Sets a field of the DataContext, which changes nothing.
        DATA_LOG_INTERNAL_STACK_TRACE = Both "DATA_LOG_INTERNAL_STACK_TRACE" flag(false) "", DRIVER;
        /// The older name of DATA_LOG_INTERNAL_STACK_TRACE.
        DATA_LOG_INTERNAL_STACK_TRACE_TO_STDOUT = Both "DATA_LOG_INTERNAL_STACK_TRACE_TO_STDOUT" flag(false) "", DRIVER;
        /// Sets a field of the DataContext, which changes nothing.
        DATA_RAISE_ORIGINAL_MAP_EXCEPTION = Both "DATA_RAISE_ORIGINAL_MAP_EXCEPTION" flag(false) "", DRIVER;
        /// 1: the readers of WebDataset unpickle files, which runs what they contain.
        DATA_WEBDATASET_ALLOW_UNSAFE_DESERIALIZATION = Both "DATA_WEBDATASET_ALLOW_UNSAFE_DESERIALIZATION" flag(false) "", "driver, workers";
    }
    TRAINING "Training and tuning" {
        /// The time for which a `report` or a collective call waits for a rank that never joins it.
        TRAIN_COLLECTIVE_TIMEOUT_S = Both "TRAIN_COLLECTIVE_TIMEOUT_S" number(1800.0, 0.0, f64::MAX) "s", TRAIN;
        /// The time between two warnings that name the missing ranks meanwhile, with their stacks.
        TRAIN_COLLECTIVE_WARN_INTERVAL_S = Both "TRAIN_COLLECTIVE_WARN_INTERVAL_S" number(60.0, 0.0, f64::MAX) "s", TRAIN;
        /// The time for which ranks wait at a report for ranks that have never reported, before the run looks for a deadlock.
        TRAIN_SOLO_REPORT_S = Own "TRAIN_SOLO_REPORT_S" number(3.0, 0.0, f64::MAX) "s", TRAIN;
        /// The time that a worker group may take to get its resources and to start.
        TRAIN_WORKER_GROUP_START_TIMEOUT_S = Both "TRAIN_WORKER_GROUP_START_TIMEOUT_S" number(60.0, 0.0, f64::MAX) "s", TRAIN;
        /// A worker that has shown no sign of life for so long counts as dead.
        TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S = Both "TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S" number(600.0, 0.0, f64::MAX) "s", TRAIN;
        /// The time between two signs of life of a worker.
        TRAIN_HEALTH_CHECK_INTERVAL_S = Both "TRAIN_HEALTH_CHECK_INTERVAL_S" number(2.0, 0.0, f64::MAX) "s", TRAIN;
        /// The time that surviving workers may take to leave the training function after another one failed.
        TRAIN_UNWIND_S = Own "TRAIN_UNWIND_S" number(2.0, 0.0, f64::MAX) "s", TRAIN;
        /// 0: a worker that left the training function cleanly is not used again.
        TRAIN_REUSE_WORKERS = Own "TRAIN_REUSE_WORKERS" flag(true) "", TRAIN;
        /// 0: results carry the fields of the first generation of Ray Train.
        TRAIN_V2_ENABLED = Both "TRAIN_V2_ENABLED" flag(true) "", TRAIN;
        /// 1: files of checkpoints are flushed to disk before a checkpoint becomes visible.
        TRAIN_FSYNC = Own "TRAIN_FSYNC" flag(false) "", TRAIN;
        /// 0: the step times of the ranks are not taken.
        TRAIN_STEP_TIMES = Own "TRAIN_STEP_TIMES" flag(true) "", TRAIN;
        /// The form in which a run is shown in the terminal.
        TRAIN_VIEW = Own "TRAIN_VIEW" choice("auto", &["auto", "live", "lines", "off"]) "", TRAIN;
        /// 0: no page of the run is written.
        TRAIN_HTML = Own "TRAIN_HTML" flag(true) "", TRAIN;
        /// 1: rows of the run and its attempts are kept on the head, which serves them at `/api/train/v2/runs/v1`.
        TRAIN_ENABLE_STATE_TRACKING = Both "TRAIN_ENABLE_STATE_TRACKING" flag(false) "", TRAIN;
        /// 0: workers and trials keep the working directory that they were started in.
        CHDIR_TO_TRIAL_DIR = Both "CHDIR_TO_TRIAL_DIR" flag(true) "", "training, trials";
        /// 1: a metric that a trial never reports is not an error.
        TUNE_DISABLE_STRICT_METRIC_CHECKING = Exact "TUNE_DISABLE_STRICT_METRIC_CHECKING" flag(false) "", TUNE;
        /// 1: a tuning run writes no CSV and TensorBoard files unless its callbacks do.
        TUNE_DISABLE_AUTO_CALLBACK_LOGGERS = Exact "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS" flag(false) "", TUNE;
        /// 1: `Tuner.fit()` does not call `init()`; the first call of the core does, unless ENABLE_AUTO_CONNECT is 0.
        TUNE_DISABLE_AUTO_INIT = Exact "TUNE_DISABLE_AUTO_INIT" flag(false) "", TUNE;
        /// 1: a tuning run leaves the handler of SIGINT as it is.
        TUNE_DISABLE_SIGINT_HANDLER = Exact "TUNE_DISABLE_SIGINT_HANDLER" flag(false) "", TUNE;
        /// Letters of a trial's folder name, before the time at its end.
        TUNE_MAX_LEN_IDENTIFIER = Exact "TUNE_MAX_LEN_IDENTIFIER" whole(130, 1, 200) "letters", TUNE;
        /// Classes of callbacks that every tuning run has, each made without arguments.
        TUNE_CALLBACKS = Ray "TUNE_CALLBACKS" text("") "module.Class, separated by commas", TUNE;
    }
}

/// Variables that Heliostat's processes set for each other, and variables of its tests.
pub static INTERNAL: &[(&str, &str)] = &[
    ("HELIOSTAT_SESSION", "The session's name; in the environment of each of its processes."),
    ("HELIOSTAT_SESSION_DIR", "The session's folder."),
    ("HELIOSTAT_NODE_SOCKET", "The daemon's socket."),
    ("HELIOSTAT_NODE_ID", "The node's identifier."),
    ("HELIOSTAT_NODE_HOST", "The address at which other nodes reach this one."),
    (
        "HELIOSTAT_NODE_PYTHON",
        "The version of the interpreter that a runtime environment's `py_executable` replaces.",
    ),
    ("HELIOSTAT_JOB_WAIT_FILE", "names the file in which an entry point says what it waits for"),
    (
        "HELIOSTAT_JOB_ENTRY",
        "The entry point of a submitted job, as JSON, for the process that runs it.",
    ),
    (
        "HELIOSTAT_ENVIRONMENT_BYTES",
        "The size of what a worker's environment has on the disk, as far as the worker found or made it.",
    ),
    ("HELIOSTAT_WORKER_ID", "The worker's identifier."),
    ("HELIOSTAT_JOB_VIEW", "The folder in which an entry point has its code, for its drivers."),
    ("HELIOSTAT_WORKER_JOB", "The job that the worker is started for."),
    ("HELIOSTAT_WORKER_CWD", "The folder in which a worker starts."),
    (
        "HELIOSTAT_WORKER_SETUP",
        "The steps of a runtime environment that the worker itself takes, as JSON.",
    ),
    ("HELIOSTAT_CLI_NAME", "The name under which the command was called."),
    ("HELIOSTAT_TRAIN_GPU_INDICES", "The places of a training worker's GPUs among those it sees."),
    ("HELIOSTAT_SIM_SEED", "The seed that the simulator's tests run alone."),
    ("HELIOSTAT_LIBRARIES", "The tests of third-party libraries are collected."),
];

/// Every setting.
pub fn table() -> impl Iterator<Item = &'static Row> {
    SECTIONS.iter().flat_map(|(_, rows)| rows.iter().copied())
}

/// The setting of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Row> {
    table().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Value;
    use std::collections::BTreeSet;

    #[test]
    fn every_setting_has_one_name_a_meaning_and_a_default_within_its_range() {
        let mut variables = BTreeSet::new();
        for row in table() {
            for variable in row.variables() {
                assert!(variables.insert(variable), "{} is set by a variable of another", row.name);
            }
            assert!(row.about.trim().ends_with('.'), "{}: the meaning is not a sentence", row.name);
            let within = match row.shape {
                Shape::Whole { default, min, max } => (min..=max).contains(&default),
                Shape::Number { default, min, max } => (min..=max).contains(&default),
                Shape::Choice { default, of } => of.contains(&default),
                Shape::Flag { .. } | Shape::Text { .. } => true,
            };
            assert!(within, "{}", row.name);
            let again = row.default().to_string();
            let read = row.read(&|_| Some(again.clone()));
            assert_eq!(read, Ok(row.default()), "{}: its default cannot be given", row.name);
            assert_eq!(find(row.name).map(|found| found.about), Some(row.about));
        }
    }

    #[test]
    fn counts_are_never_negative() {
        for row in table() {
            if let (Shape::Whole { min, .. }, Value::Whole(default)) = (row.shape, row.default()) {
                assert!(min >= -1 && default >= min, "{}", row.name);
            }
        }
        assert_eq!(MAX_IO_WORKERS.read(&|_| None), Ok(4));
    }
}
