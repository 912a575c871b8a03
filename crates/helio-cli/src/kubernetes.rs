//! Facts of a pod that KubeRay's operator passes in environment variables.

use std::collections::BTreeMap;
#[cfg(feature = "dashboard")]
use std::path::Path;

use helio_config::setting::Setting;
use helio_config::table::{CLUSTER_NAME, NODE_MARKET_TYPE, NODE_REGION, NODE_TYPE_NAME, NODE_ZONE};
use helio_env::settings;

use crate::values;

/// The label that says which kind of machine a node is.
pub(crate) const NODE_GROUP: &str = "ray.io/node-group";

/// The labels that Ray gives a node for these variables.
const LABELS: [(&Setting<String>, &str); 4] = [
    (&NODE_TYPE_NAME, NODE_GROUP),
    (&NODE_MARKET_TYPE, "ray.io/market-type"),
    (&NODE_REGION, "ray.io/availability-region"),
    (&NODE_ZONE, "ray.io/availability-zone"),
];

/// The file in which a pod reads its namespace.
#[cfg(feature = "dashboard")]
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The node's labels that the environment says.
pub(crate) fn labels() -> Result<BTreeMap<String, String>, String> {
    let mut labels = BTreeMap::new();
    for (setting, key) in LABELS {
        if let Some(value) = settings::text(setting) {
            let wrong = |error| format!("RAY_{}: {error}", setting.row.name);
            labels.extend(values::labels(&format!("{key}={value}")).map_err(wrong)?);
        }
    }
    Ok(labels)
}

/// Whether the folder of a session that this pod joins is called as the head's. The collector of KubeRay's history server
/// stores a pod's logs under the name of that folder. Elsewhere each daemon's folder has a name of its own, since
/// machines may share the folder of all sessions.
pub(crate) fn shares_session_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    settings::text(&CLUSTER_NAME).is_some()
        && name.starts_with("session_")
        && name.bytes().all(is_plain)
}

/// The names of the service that leads to this head: what a browser within the Kubernetes cluster asks for.
#[cfg(feature = "dashboard")]
pub(crate) fn names() -> Vec<String> {
    let cluster = settings::text(&CLUSTER_NAME).unwrap_or_default();
    let namespace = std::fs::read_to_string(Path::new(NAMESPACE_FILE)).unwrap_or_default();
    names_of(&cluster, namespace.trim())
}

#[cfg(feature = "dashboard")]
fn names_of(cluster: &str, namespace: &str) -> Vec<String> {
    if cluster.is_empty() {
        return Vec::new();
    }
    let service = format!("{cluster}-head-svc");
    let mut names = vec![service.clone()];
    if !namespace.is_empty() {
        // The last is any name that the administrator chose for all of Kubernetes; this is the usual one.
        let within = ["", ".svc", ".svc.cluster.local"];
        names.extend(within.map(|end| format!("{service}.{namespace}{end}")));
    }
    names
}

#[cfg(all(test, feature = "dashboard"))]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_the_names_of_its_service() {
        assert!(names_of("", "team").is_empty());
        assert_eq!(names_of("train", ""), ["train-head-svc"]);
        assert_eq!(
            names_of("train", "team"),
            [
                "train-head-svc",
                "train-head-svc.team",
                "train-head-svc.team.svc",
                "train-head-svc.team.svc.cluster.local",
            ]
        );
    }
}
