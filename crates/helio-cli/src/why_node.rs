//! `why` of a node: how it is, since when, and where what it had went.

use helio_proto::control::{ControlResponse, ListNodes, NodeInfo};
use helio_report::rows::moment;
use helio_types::NodeId;

use crate::state::Cluster;

/// Returns the explanation of the node of that id; `None`: there is none.
pub(crate) fn of(cluster: &Cluster, id: &str) -> Result<Option<String>, String> {
    let ControlResponse::Nodes(all) = cluster.ask(ListNodes {})? else { return Ok(None) };
    let found = all.nodes.iter().find(|node| node.address.node_id.hex() == id);
    Ok(found.map(|node| text(node, &all.nodes)))
}

fn text(node: &NodeInfo, all: &[NodeInfo]) -> String {
    let host = &node.address.host;
    let heir = match node.heir.node_id {
        NodeId::NIL => String::new(),
        heir => {
            let known = all.iter().find(|other| other.address.node_id == heir);
            let at = known.map_or(node.heir.host.as_str(), |other| other.address.host.as_str());
            format!(" The objects that it kept are with the node {at} ({heir}).")
        }
    };
    if node.alive {
        return match node.is_draining {
            true => format!(
                "Node {host} is ALIVE and takes no new work: it leaves when what runs there has ended.{heir}"
            ),
            false => format!("Node {host} is ALIVE."),
        };
    }
    let when = match node.ended_ms {
        0 => String::new(),
        ms => format!(" since {}", moment(ms)),
    };
    let cause = match node.cause.trim_end_matches('.') {
        "" => String::new(),
        cause => format!(" {}.", capitalized(cause)),
    };
    format!("Node {host} is DEAD{when}.{cause}{heir}")
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use helio_types::NodeAddress;

    use super::*;

    #[test]
    fn a_node_says_how_it_is_and_where_its_objects_went() {
        let address = |number: u8| NodeAddress {
            node_id: NodeId([number; 28]),
            host: format!("10.0.0.{number}"),
            port: 1,
        };
        let heir = NodeInfo { address: address(2), alive: true, ..NodeInfo::default() };
        let mut node = NodeInfo {
            address: address(1),
            alive: true,
            heir: NodeAddress { node_id: NodeId::NIL, ..NodeAddress::default() },
            ..NodeInfo::default()
        };
        assert_eq!(text(&node, &[]), "Node 10.0.0.1 is ALIVE.");
        node.is_draining = true;
        assert!(text(&node, &[]).contains("takes no new work"));
        (node.alive, node.heir, node.cause) = (false, address(2), "it was stopped".to_owned());
        let said = text(&node, &[heir]);
        assert!(said.starts_with("Node 10.0.0.1 is DEAD. It was stopped."), "{said}");
        assert!(said.contains("with the node 10.0.0.2 (0202"), "{said}");
        node.ended_ms = 951_782_400_000;
        assert!(text(&node, &[]).contains("DEAD since 2000-02-29 00:00:00 UTC."));
    }
}
