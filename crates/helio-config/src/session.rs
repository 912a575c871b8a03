//! Settings of a session: where it lives on disk, what it listens on, how it starts and ends.

/// The folder of all sessions.
pub const TEMP_DIR: &str = "/tmp/ray";

/// Names the latest session's folder.
pub const LATEST_LINK: &str = "session_latest";

/// Holds the control service's address of the cluster that `start --head` made.
pub const CURRENT_CLUSTER_FILE: &str = "ray_current_cluster";

/// In a session's folder: the daemon's process id.
pub const PID_FILE: &str = "node.pid";

/// In a session's folder: what the daemon said when it was ready (one line of JSON).
pub const READY_FILE: &str = "node.json";

/// In the folder `logs` of a session's folder: the daemon's log.
pub const LOG_FILE: &str = "node.log";

/// In a session's folder: the control service's durable state.
pub const CONTROL_FILE: &str = "control.redb";

/// In a session's folder: a copy of the token, for processes whose home is another.
pub const TOKEN_FILE: &str = "auth_token";

/// In a session's folder: the daemon's socket.
pub const NODE_SOCKET: &str = "sockets/node.sock";

/// In a session's folder: another name of that socket. The collector of KubeRay's history server takes a session for one
/// that runs when it can connect there.
pub const RAYLET_SOCKET: &str = "sockets/raylet";

/// In a session's folder, on the head: the control service's socket.
pub const CONTROL_SOCKET: &str = "sockets/control.sock";

/// In a session's folder, on the head: where connections to drivers' machines outside the cluster are handed over.
pub const GATEWAY_SOCKET: &str = "sockets/gateway.sock";

/// The port where drivers outside the cluster connect to its head.
pub const GATEWAY_PORT: u16 = 10001;

/// In a session's folder: the certificate of a node whose cluster makes its own, its key, and the authority.
pub const TLS_FOLDER: &str = "tls";

/// In a session's folder: packages of code, as archives; on the head those of the whole cluster.
pub const PACKAGES_FOLDER: &str = "packages";

/// In a session's folder: packages of code that workers of this node use, unpacked.
pub const CODE_FOLDER: &str = "working_dirs";

/// The head's TCP port of a cluster that `start --head` makes.
pub const CONTROL_PORT: u16 = 6379;

/// Seconds that a daemon may take until it is ready.
pub const START_S_MAX: u64 = 60;

/// Seconds that `stop` waits between the request and the kill.
pub const GRACE_S: u64 = 16;

/// Seconds that a daemon that belongs to a driver waits for it to register.
pub const OWNER_DRIVER_S_MAX: u64 = 30;
