//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use helio_config::dashboard::{HOST, PORT};
use helio_config::session::{CONTROL_PORT, GATEWAY_PORT, GRACE_S};

use crate::ingress::Listening;
use crate::names;

#[derive(Parser, Debug)]
#[command(
    about = "Run tasks and actors on one machine or many: Ray's programming model on a core written in Rust."
)]
#[command(disable_version_flag = true, subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Least level of the messages to print: debug, info, warning, error.
    #[arg(long, global = true, hide = true)]
    logging_level: Option<String>,
    /// Style of the messages.
    #[arg(long, global = true, hide = true)]
    logging_format: Option<String>,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Start this machine's daemon, as the head of a new cluster or as a further node of one.
    Start(Start),
    /// Stop the daemons of this machine.
    Stop(Stop),
    /// Started alike on every machine of a job: makes a cluster of them, runs a command on the head, and ends it all.
    SymmetricRun(SymmetricRun),
    /// Drain a node: running work ends, actors and objects move to other nodes, then the node leaves.
    DrainNode(DrainNode),
    /// Show the cluster's nodes, resources and demands.
    Status(Status),
    /// Say what a task, an object, an actor, a node, a job, a placement group, a training run, a trial or a deployment waits
    /// for, or how it ended.
    Why(Why),
    /// List tasks, objects, workers, actors, nodes, jobs or placement-groups.
    List(List),
    /// Show one task, object, worker, actor, node, job or placement group.
    Get(Get),
    /// Count tasks, actors or objects by name and state.
    Summary(Summary),
    /// Write a trace of the tasks for Chrome's trace viewer.
    Timeline(Timeline),
    /// Print a link that logs a browser in to the dashboard, once, within ten minutes; open the dashboard for a script's own cluster.
    Dashboard {
        /// Address of the cluster's head [default: $RAY_ADDRESS, else the cluster that runs on this machine].
        #[arg(long, value_name = "IP:PORT")]
        address: Option<String>,
        /// Port, where the cluster has no dashboard and this command opens one [default: 8265, or the next free one].
        #[arg(long)]
        port: Option<u16>,
    },
    /// Show the page of a cluster that is gone, from what its head wrote down.
    History {
        /// The action on a history.
        #[command(subcommand)]
        what: History,
    },
    /// Print the token that every process of a cluster needs.
    GetAuthToken {
        /// Create the token if there is none.
        #[arg(long)]
        generate: bool,
    },
    /// Print what this machine's daemon of a cluster said when it was ready, for drivers.
    #[command(hide = true)]
    Locate {
        /// Address of the cluster's head [default: $RAY_ADDRESS, else the cluster that runs on this machine].
        #[arg(long, value_name = "IP:PORT")]
        address: String,
    },
    /// Run the daemon.
    #[command(hide = true)]
    Node(Node),
    /// Delete the cluster's state that heads keep in a store; ends with 0 where there was any.
    #[command(hide = true)]
    CleanupControlStore(Store),
    /// Ends with 0 where the head of the cluster answers: what Kubernetes asks before it starts a node.
    #[command(hide = true)]
    HealthCheck {
        /// Address of the cluster's head [default: $RAY_ADDRESS, else the cluster that runs on this machine].
        #[arg(long, value_name = "HOST:PORT")]
        address: Option<String>,
        /// Accepted for Ray's sake: all releases that understand each other answer.
        #[arg(long)]
        skip_version_check: bool,
    },
    /// Starts and ends the machines of a cluster of Kubernetes, as KubeRay's operator has it run beside the head.
    #[command(hide = true, disable_help_flag = true)]
    KuberayAutoscaler {
        /// See `kuberay-autoscaler --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Makes and ends the machines of a cluster in a cloud, as `up` has it run beside the head.
    #[command(hide = true, disable_help_flag = true)]
    Autoscaler {
        /// See `autoscaler --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Submit a job, or say what became of it: submit, status, stop, delete, logs, list.
    #[command(disable_help_flag = true)]
    Job {
        /// See `job --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Have Prometheus read all nodes: config, launch-prometheus, shutdown-prometheus.
    #[command(disable_help_flag = true)]
    Metrics {
        /// See `metrics --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Print logs of any node: cluster, actor, task, worker, job, search.
    #[command(disable_help_flag = true)]
    Logs {
        /// See `logs --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Print which process holds references to which objects, and how large they are.
    #[command(disable_help_flag = true)]
    Memory {
        /// See `memory --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Print what the Python workers of this machine, or of all nodes, are doing: their stacks.
    #[command(disable_help_flag = true)]
    Stack(Rest),
    /// Show nodes, calls and actors as they change, in the terminal.
    #[command(disable_help_flag = true)]
    Top(Rest),
    /// List, make and remove environments of packages on this machine.
    #[command(disable_help_flag = true)]
    Env(Rest),
    /// End a named actor.
    #[command(disable_help_flag = true)]
    KillActor(Rest),
    /// Have Python's garbage collector run in all workers of the cluster.
    #[command(disable_help_flag = true)]
    GlobalGc(Rest),
    /// Pack logs, states and versions of all nodes into one file, for a report.
    #[command(disable_help_flag = true)]
    ClusterDump(Rest),
    /// Show training runs over each other: what they took, their metrics, the steps of their ranks.
    #[command(disable_help_flag = true)]
    CompareRuns(Rest),
    /// Does what the program `serve` does.
    #[command(hide = true, disable_help_flag = true)]
    Serve(Rest),
    /// Does what the program `tune` does.
    #[command(hide = true, disable_help_flag = true)]
    Tune(Rest),
    /// Connect to a task that waits at a breakpoint of RAY_DEBUG=legacy.
    #[command(disable_help_flag = true)]
    Debug {
        /// See `debug --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Start a cluster on machines that ssh reaches, as a YAML file describes it, or bring it up to date.
    #[command(disable_help_flag = true)]
    Up(Rest),
    /// Stop such a cluster.
    #[command(disable_help_flag = true)]
    Down(Rest),
    /// Run a command on the head of such a cluster.
    #[command(disable_help_flag = true)]
    Exec(Rest),
    /// Open a shell on the head, or on another machine, of such a cluster.
    #[command(disable_help_flag = true)]
    Attach(Rest),
    /// Copy a script to the head of such a cluster and run it there.
    #[command(disable_help_flag = true)]
    Submit(Rest),
    /// Copy files to such a cluster.
    #[command(disable_help_flag = true)]
    RsyncUp(Rest),
    /// Copy files from the head of such a cluster.
    #[command(disable_help_flag = true)]
    RsyncDown(Rest),
    /// Print the address of the head of such a cluster.
    #[command(disable_help_flag = true)]
    GetHeadIp(Rest),
    /// Print the addresses of the other machines of such a cluster.
    #[command(disable_help_flag = true)]
    GetWorkerIps(Rest),
    /// Follow the log of the head of such a cluster.
    #[command(disable_help_flag = true)]
    Monitor(Rest),
    /// Run the HTTP server of Serve.
    #[command(hide = true)]
    ServeIngress {
        #[arg(long, value_name = "DIR")]
        session_dir: PathBuf,
        #[command(flatten)]
        listening: Listening,
    },
    /// Run a job's entry point and write down how it ends.
    #[command(hide = true)]
    JobProcess {
        #[arg(long, value_name = "FILE")]
        run: PathBuf,
        #[arg(long, value_name = "FILE")]
        end: PathBuf,
        entrypoint: String,
    },
}

/// The arguments of a command that Python reads.
#[derive(Args, Debug)]
pub(crate) struct Rest {
    /// See the command's `--help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// An action on a history.
#[derive(Subcommand, Debug)]
pub(crate) enum History {
    /// List the histories on this machine.
    List,
    /// Serve the page of a cluster that is gone, until Ctrl-C.
    Open {
        /// Folder of a session or of its history, or s3://BUCKET/FOLDER [default: the session that began last].
        place: Option<String>,
        /// Port [default: 8265, or the next free one].
        #[arg(long)]
        port: Option<u16>,
    },
}

/// The resources and paths that a node offers; for `start` and for the daemon.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct Offer {
    /// The number of CPUs to offer [default: all].
    #[arg(long, value_name = "N")]
    pub(crate) num_cpus: Option<f64>,
    /// The number of GPUs to offer [default: all].
    #[arg(long, value_name = "N")]
    pub(crate) num_gpus: Option<f64>,
    /// Other resources to offer, as JSON: '{"X": 1}'.
    #[arg(long, value_name = "JSON")]
    pub(crate) resources: Option<String>,
    /// The node's labels: 'key=value,key2=value2', or JSON.
    #[arg(long, value_name = "LABELS")]
    pub(crate) labels: Option<String>,
    /// The memory to offer, in bytes [default: what the object store leaves].
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory: Option<u64>,
    /// The object store's size, in bytes [default: 30 % of the memory].
    #[arg(long, value_name = "BYTES")]
    pub(crate) object_store_memory: Option<u64>,
    /// The folder for objects that the store has no room for [default: in the session's folder].
    #[arg(long, value_name = "DIR")]
    pub(crate) object_spilling_directory: Option<PathBuf>,
    /// The node's name, for people [default: its IP].
    #[arg(long, value_name = "NAME")]
    pub(crate) node_name: Option<String>,
    /// A function that sets OpenTelemetry up, MODULE:FUNCTION: drivers that begin on this node trace their calls.
    #[arg(long, value_name = "HOOK")]
    pub(crate) tracing_startup_hook: Option<String>,
    /// The port for measurements in the format of Prometheus [default: any].
    #[arg(long, value_name = "PORT")]
    pub(crate) metrics_export_port: Option<u16>,
    /// The port at which probes ask whether this node is well: /api/healthz, /api/local_raylet_healthz [default: none].
    #[arg(long, value_name = "PORT")]
    pub(crate) dashboard_agent_listen_port: Option<u16>,
    /// The folder of sessions [default: $RAY_TMPDIR/ray, or /tmp/ray].
    #[arg(long, value_name = "DIR")]
    pub(crate) temp_dir: Option<PathBuf>,
}

/// `start`.
#[derive(Args, Debug, Default)]
pub(crate) struct Start {
    /// Start the head of a new cluster.
    #[arg(long)]
    pub(crate) head: bool,
    /// Join the cluster with this head address.
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) address: Option<String>,
    #[arg(long, value_name = "PORT", help = format!("The head's one port [default: {CONTROL_PORT}]; 0: any"))]
    pub(crate) port: Option<u16>,
    /// Keep this command running until the daemon ends or a signal arrives.
    #[arg(long)]
    pub(crate) block: bool,
    /// `auto`: connections between machines are encrypted, with certificates that each node makes from the cluster's
    /// token. Every node has to be started with it.
    #[arg(long, value_name = "auto")]
    pub(crate) tls: Option<Tls>,
    /// IP address by which other machines reach this one [default: the source address of the default route].
    #[arg(long, value_name = "IP")]
    pub(crate) node_ip_address: Option<String>,
    /// The one TCP port of the node [default: any free port]. For the head use `--port`.
    #[arg(long, value_name = "PORT")]
    pub(crate) node_manager_port: Option<u16>,
    /// The port for objects, which is that of `--node-manager-port`.
    #[arg(long, value_name = "PORT")]
    pub(crate) object_manager_port: Option<u16>,
    /// Accepted and without effect: workers listen on no port of their own.
    #[arg(long, value_name = "PORT")]
    pub(crate) min_worker_port: Option<u16>,
    /// Accepted and without effect, see `--min-worker-port`.
    #[arg(long, value_name = "PORT")]
    pub(crate) max_worker_port: Option<u16>,
    /// Accepted and without effect, see `--min-worker-port`.
    #[arg(long, value_name = "PORTS")]
    pub(crate) worker_port_list: Option<String>,
    #[arg(long, value_name = "PORT", help = format!("The head's port for drivers outside the cluster, ray://HOST:PORT [default: {GATEWAY_PORT}, or a free one]"))]
    pub(crate) ray_client_server_port: Option<u16>,
    /// Labels in a file, a `key: value` a line.
    #[arg(long, value_name = "FILE", conflicts_with = "labels")]
    pub(crate) labels_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: Store,
    #[command(flatten)]
    pub(crate) dashboard: Dashboard,
    #[command(flatten)]
    pub(crate) offer: Offer,
    /// The daemon ends with the process that starts it, and takes up no earlier cluster: for `symmetric-run`.
    #[arg(skip)]
    pub(crate) ends_with_starter: bool,
}

impl Start {
    /// The one TCP port of the node; 0 takes any free port.
    pub(crate) fn node_port(&self) -> u16 {
        if self.head {
            self.port.unwrap_or(CONTROL_PORT)
        } else {
            self.node_manager_port.or(self.object_manager_port).unwrap_or(0)
        }
    }
}

/// `symmetric-run`.
#[derive(Args, Debug)]
pub(crate) struct SymmetricRun {
    /// Address of the head: the machine that HOST names starts it at PORT, all others join it there.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: String,
    /// The number of nodes, the head among them, that the command waits for [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) min_nodes: Option<u32>,
    #[command(flatten)]
    pub(crate) dashboard: Dashboard,
    #[command(flatten)]
    pub(crate) offer: Offer,
    /// Labels in a file, a `key: value` a line.
    #[arg(long, value_name = "FILE", conflicts_with = "labels")]
    pub(crate) labels_file: Option<PathBuf>,
    /// The one TCP port of each node but the head [default: any free port].
    #[arg(long, value_name = "PORT")]
    pub(crate) node_manager_port: Option<u16>,
    #[arg(long, hide = true)]
    pub(crate) head: bool,
    #[arg(long, hide = true)]
    pub(crate) port: Option<u16>,
    #[arg(long, hide = true)]
    pub(crate) node_ip_address: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) block: bool,
    /// The command that runs on the head, and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The store in which the head keeps the cluster's state.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct Store {
    /// Keep the cluster's state at redis://HOST:PORT or etcd://HOST:PORT,HOST:PORT, so that another head can go on with
    /// it [default: $RAY_REDIS_ADDRESS, else a file of the session].
    #[arg(long, value_name = "URL")]
    pub(crate) control_store: Option<String>,
    /// The user to log in as there [default: $RAY_REDIS_USERNAME].
    #[arg(long, value_name = "NAME")]
    pub(crate) redis_username: Option<String>,
    /// The password of that user [default: $RAY_REDIS_PASSWORD].
    #[arg(long, value_name = "PASSWORD")]
    pub(crate) redis_password: Option<String>,
}

/// The head's HTTP server; for `start`.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct Dashboard {
    /// Serve the dashboard: jobs, state, logs and the page [default: true, on the head].
    #[arg(long, value_name = "BOOL", value_parser = clap::builder::BoolishValueParser::new())]
    pub(crate) include_dashboard: Option<bool>,
    #[arg(long, value_name = "IP", help = format!("The IP at which the dashboard listens [default: {HOST}]; 0.0.0.0: all"))]
    pub(crate) dashboard_host: Option<String>,
    #[arg(long, value_name = "PORT", help = format!("Its port [default: {PORT}, or the next free one]"))]
    pub(crate) dashboard_port: Option<u16>,
    /// Names by which browsers may ask for it, besides `localhost`, addresses and this machine's name.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) dashboard_allowed_hosts: Vec<String>,
}

/// The address of the HTTP server of a head that is started.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct DashboardAddress {
    /// Serve the dashboard there.
    #[arg(long, value_name = "HOST:PORT", requires = "head")]
    pub(crate) dashboard: Option<String>,
    /// If that port is taken, at the next free one.
    #[arg(long)]
    pub(crate) dashboard_port_moves: bool,
    /// Names by which browsers may ask for it, besides those that it has by itself.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) dashboard_allowed_hosts: Vec<String>,
}

/// `stop`.
#[derive(Args, Debug)]
pub(crate) struct Stop {
    /// Kill the daemons at once, without draining.
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Seconds until daemons that still run are killed; a node that is drained gives running work three quarters of it.
    #[arg(short, long, value_name = "SECONDS", default_value_t = GRACE_S)]
    pub(crate) grace_period: u64,
}

/// `drain-node`.
#[derive(Args, Debug)]
pub(crate) struct DrainNode {
    #[command(flatten)]
    pub(crate) cluster: ClusterAddress,
    /// The node's id, in hex [default: the node that this command runs on].
    #[arg(long, value_name = "ID")]
    pub(crate) node_id: Option<String>,
    /// Accepted for Ray's sake: DRAIN_NODE_REASON_IDLE_TERMINATION or DRAIN_NODE_REASON_PREEMPTION.
    #[arg(
        long,
        value_parser = ["DRAIN_NODE_REASON_IDLE_TERMINATION", "DRAIN_NODE_REASON_PREEMPTION"],
        required_unless_present = "cancel"
    )]
    pub(crate) reason: Option<String>,
    /// The reason in words, for logs and `status`.
    #[arg(long, value_name = "TEXT", required_unless_present = "cancel")]
    pub(crate) reason_message: Option<String>,
    /// Take an earlier order back: the node stays, unless it is handing its objects over already.
    #[arg(long)]
    pub(crate) cancel: bool,
    /// Seconds that running tasks and actors may go on [default: until they have ended].
    #[arg(long, value_name = "SECONDS")]
    pub(crate) deadline_remaining_seconds: Option<u64>,
}

/// The cluster that a command asks.
#[derive(Args, Debug)]
pub(crate) struct ClusterAddress {
    /// Address of the cluster's head [default: $RAY_ADDRESS, else the cluster that runs on this machine].
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) address: Option<String>,
}

/// `status`.
#[derive(Args, Debug)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) cluster: ClusterAddress,
    /// Also show the resources of each node.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[arg(long, hide = true)]
    redis_password: Option<String>,
}

/// `why`.
#[derive(Args, Debug)]
pub(crate) struct Why {
    /// The id, in hex, or the name of an actor, a training run, a trial, an application or a deployment.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) cluster: ClusterAddress,
}

/// Format of the output.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// A table, or YAML with `--detail`.
    #[default]
    Default,
    Json,
    Yaml,
    Table,
}

/// `list`.
#[derive(Args, Debug)]
pub(crate) struct List {
    /// tasks, objects, workers, actors, nodes, jobs, placement-groups, runtime-envs or cluster-events.
    pub(crate) resource: String,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Show only rows where column=value or column!=value. May be given several times.
    #[arg(short, long, value_name = "COLUMN=VALUE")]
    pub(crate) filter: Vec<String>,
    /// Number of rows to show.
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: usize,
    /// Show all columns.
    #[arg(long)]
    pub(crate) detail: bool,
    /// Show tables whole, however narrow the terminal is; elsewhere they always are.
    #[arg(long)]
    pub(crate) wide: bool,
    #[arg(long, hide = true)]
    timeout: Option<f64>,
    #[command(flatten)]
    pub(crate) cluster: ClusterAddress,
}

/// `get`.
#[derive(Args, Debug)]
pub(crate) struct Get {
    /// tasks, objects, workers, actors, nodes, jobs, placement-groups, runtime-envs or cluster-events.
    pub(crate) resource: String,
    /// The id, in hex.
    pub(crate) id: String,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Show tables whole, however narrow the terminal is; elsewhere they always are.
    #[arg(long)]
    pub(crate) wide: bool,
    #[arg(long, hide = true)]
    timeout: Option<f64>,
    #[command(flatten)]
    pub(crate) cluster: ClusterAddress,
}

/// `summary`.
#[derive(Args, Debug)]
pub(crate) struct Summary {
    /// tasks, actors or objects.
    pub(crate) resource: String,
    /// Form of the output: a table with the sums below it unless it is json or yaml.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Show tables whole, however narrow the terminal is; elsewhere they always are.
    #[arg(long)]
    pub(crate) wide: bool,
    #[arg(long, hide = true)]
    timeout: Option<f64>,
    #[command(flatten)]
    pub(crate) cluster: ClusterAddress,
}

/// `timeline`.
#[derive(Args, Debug)]
pub(crate) struct Timeline {
    /// The file [default: ray-timeline-<time>.json in the temporary folder].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cluster: ClusterAddress,
}

/// The daemon. What runs it is `start`, `init`, and test clusters.
#[derive(Args, Debug)]
pub(crate) struct Node {
    /// Host the control service.
    #[arg(long, conflicts_with = "address")]
    pub(crate) head: bool,
    /// The control service to join.
    #[arg(long, value_name = "HOST:PORT", required_unless_present_any = ["head", "gateway"])]
    pub(crate) address: Option<String>,
    /// The gateway through which a driver's machine outside the cluster takes part in it.
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["head", "address"])]
    pub(crate) gateway: Option<String>,
    /// The driver's version of Python.
    #[arg(long, value_name = "VERSION", requires = "gateway", default_value = "")]
    pub(crate) python_version: String,
    /// Let drivers outside the cluster in at this port.
    #[arg(long, value_name = "PORT", requires = "head")]
    pub(crate) gateway_port: Option<u16>,
    /// If that port is taken, at a free one.
    #[arg(long)]
    pub(crate) gateway_port_moves: bool,
    /// The IP at which other machines reach this one.
    #[arg(long, value_name = "IP", alias = "node-ip-address")]
    pub(crate) host: Option<String>,
    /// The one TCP port of the node; 0 takes any free port.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// Encrypt connections between machines.
    #[arg(long, value_name = "auto")]
    pub(crate) tls: Option<Tls>,
    #[command(flatten)]
    pub(crate) offer: Offer,
    /// The interpreter that workers run.
    #[arg(long, value_name = "PATH", env = "HELIOSTAT_PYTHON", default_value = "python3")]
    pub(crate) python: PathBuf,
    /// A descriptor to which one line of JSON is written when ready; then the daemon's own output goes to its log files.
    #[arg(long, value_name = "N")]
    pub(crate) ready_fd: Option<i32>,
    /// The cluster ends with the driver that registers as its owner.
    #[arg(long)]
    pub(crate) owner_driver: bool,
    /// The daemon ends in order when the process that started it dies.
    #[arg(long)]
    pub(crate) ends_with_starter: bool,
    /// The session's name; one that exists and whose daemon is gone is taken up again.
    #[arg(long, value_name = "NAME")]
    pub(crate) session_name: Option<String>,
    #[command(flatten)]
    pub(crate) dashboard: DashboardAddress,
}

/// The encryption of connections between machines, where the environment does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Tls {
    /// Encrypts with certificates that are made from the token.
    Auto,
}

/// Flags of `ray start` that have no effect here, and whether they take a value.
const IGNORED: &[(&str, bool)] = &[
    ("dashboard-grpc-port", true),
    ("dashboard-agent-grpc-port", true),
    ("runtime-env-agent-port", true),
    ("plasma-directory", true),
    ("system-config", true),
    ("autoscaling-config", true),
    ("no-monitor", false),
    ("include-log-monitor", true),
    ("disable-usage-stats", false),
    ("enable-object-reconstruction", false),
    ("redis-shard-ports", true),
    ("proxy-server-url", true),
    ("ray-debugger-external", false),
    ("enable-resource-isolation", false),
    ("system-reserved-cpu", true),
    ("system-reserved-memory", true),
    ("cgroup-path", true),
    ("no-redirect-output", false),
    ("log-style", true),
    ("log-color", true),
    ("verbose", false),
];

/// The flags of [`IGNORED`] that were given, with their values.
#[derive(Debug, Default)]
pub(crate) struct Ignored(Vec<(&'static str, String)>);

impl Ignored {
    fn of(matches: &ArgMatches) -> Self {
        let given = |name: &&str| matches.value_source(name) == Some(ValueSource::CommandLine);
        let value = |name: &str, takes: bool| {
            takes.then(|| matches.get_one::<String>(name).cloned()).flatten().unwrap_or_default()
        };
        let given = IGNORED.iter().filter(|(name, _)| given(name));
        Self(given.map(|(name, takes)| (*name, value(name, *takes))).collect())
    }

    /// Whether that flag was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(given, _)| *given == name)
    }

    /// The given flags whose effect is missing here.
    pub(crate) fn unmet(&self) -> impl Iterator<Item = &'static str> {
        let is_off =
            |value: &str| matches!(value.to_ascii_lowercase().as_str(), "false" | "0" | "no");
        let moot = [
            "disable-usage-stats",
            "no-monitor",
            "no-redirect-output",
            "verbose",
            "log-style",
            "log-color",
        ];
        let unmet =
            self.0.iter().filter(move |(name, value)| !is_off(value) && !moot.contains(name));
        unmet.map(|(name, _)| *name)
    }
}

/// Reads the command line; leaves the process when it asks for help or makes no sense.
pub(crate) fn parse() -> (Command, Ignored) {
    let matches = command().get_matches();
    let ignored = match matches.subcommand() {
        Some(("start" | "symmetric-run", matches)) => Ignored::of(matches),
        _ => Ignored::default(),
    };
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => (cli.command, ignored),
        Err(error) => error.exit(),
    }
}

fn command() -> clap::Command {
    let name = names::command();
    let version =
        Arg::new("version").long("version").action(ArgAction::Version).help("Print the version");
    let with_ignored = |start: clap::Command| {
        IGNORED.iter().fold(start, |start, (name, takes_value)| {
            let action = if *takes_value { ArgAction::Set } else { ArgAction::SetTrue };
            start.arg(Arg::new(*name).long(*name).action(action).hide(true))
        })
    };
    Cli::command()
        .name(name)
        .bin_name(name)
        .version(VERSION)
        .arg(version)
        .mut_subcommand("start", with_ignored)
        .mut_subcommand("symmetric-run", with_ignored)
}

/// The release of Ray whose API this is, then our own; clap puts the command's name in front.
const VERSION: &str = concat!(
    "version ",
    helio_config::ray_version!(),
    " (heliostat ",
    env!("CARGO_PKG_VERSION"),
    ")"
);

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(Command, Ignored), clap::Error> {
        let matches = command().try_get_matches_from(line.split_whitespace())?;
        let ignored = matches.subcommand_matches("start").map(Ignored::of).unwrap_or_default();
        Ok((Cli::from_arg_matches(&matches)?.command, ignored))
    }

    #[test]
    fn the_definition_holds_together() {
        command().debug_assert();
    }

    /// F6.02: what there is of Ray's ports here is one.
    #[test]
    fn ports_of_ray_name_the_one_of_the_node() {
        let port = |line: &str| match parse(line).unwrap().0 {
            Command::Start(start) => start.node_port(),
            _ => panic!("start"),
        };
        assert_eq!(port("ray start --head --node-manager-port=7000"), CONTROL_PORT);
        assert_eq!(port("ray start --head --port=0"), 0);
        assert_eq!(port("ray start --address=h:1"), 0);
        assert_eq!(port("ray start --address=h:1 --object-manager-port 7001"), 7001);
        assert_eq!(
            port(
                "ray start --address=h:1 --object-manager-port 7001 --node-manager-port 7000 --min-worker-port 1"
            ),
            7000
        );
    }

    #[test]
    fn flags_of_ray_are_known_and_others_are_named() {
        let (command, ignored) = parse(
            "ray start --head --port=6380 --num-cpus 2 --include-dashboard=false --dashboard-host 0.0.0.0 \
             --system-config={} --disable-usage-stats --block",
        )
        .unwrap();
        let Command::Start(start) = command else { panic!("start") };
        assert!(
            start.head
                && start.block
                && start.port == Some(6380)
                && start.offer.num_cpus == Some(2.0)
        );
        let dashboard = start.dashboard;
        assert_eq!(dashboard.include_dashboard, Some(false));
        assert_eq!(dashboard.dashboard_host.as_deref(), Some("0.0.0.0"));
        assert_eq!(ignored.unmet().collect::<Vec<_>>(), ["system-config"]);
        for (line, named) in [
            ("ray start --head --nonsense", "--nonsense"),
            ("ray start --head --num-cpus=many", "many"),
            ("ray start --head --port=seventy", "seventy"),
            ("ray node", "--address"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
