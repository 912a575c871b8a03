//! The autoscaler's routes, `/api/autoscaler/…`. The autoscaler decides; these routes only tell it the state of the
//! cluster, and keep its report of its plans where `status` and `why` look.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use helio_proto::control::{
    ControlResponse, DrainNode, KvGet, KvPut, Label, ListNodes, NodeInfo, PendingDemand, Strategy,
    StrategyKind,
};
use helio_proto::group::{Bundle, GroupInfo, GroupPhase, ListGroups};
use helio_report::{Resource, Row, as_asked, without_bundles};
use helio_types::{NodeId, ResourceSet};
use serde_json::{Value, json};

use crate::App;
use crate::answers::Done;
use crate::answers::autoscaler::{Demand, Gang, MissingBundle, ScaledNode, ScalingState};
use crate::job_routes::{BODY_MAX, read};
use crate::reply::{self, Refusal, Reply};

/// The namespace of the requests of `ray.autoscaler.sdk` and of the autoscaler's plans.
const NAMESPACE: &str = "autoscaler";
const REQUEST: &[u8] = b"autoscaler_resource_request";
const REPORT: &[u8] = b"report";

const ELSE: &str = "the head answers something else";

/// `GET /api/autoscaler/state`: nodes, what waits for room, and what the cluster should have at least.
pub(crate) async fn state(State(app): State<Arc<App>>) -> Result<Reply, Refusal> {
    let unavailable = Refusal::unavailable;
    let ControlResponse::Nodes(nodes) = app.asker.ask(ListNodes {}).await.map_err(unavailable)?
    else {
        return Err(unavailable(ELSE.to_owned()));
    };
    let ControlResponse::Groups(groups) =
        app.asker.ask(ListGroups {}).await.map_err(unavailable)?
    else {
        return Err(unavailable(ELSE.to_owned()));
    };
    let get = KvGet { namespace: NAMESPACE.to_owned(), key: REQUEST.to_vec() };
    let wanted = match app.asker.ask(get).await.map_err(unavailable)? {
        ControlResponse::KvValue(found) if found.found => found.value,
        _ => Vec::new(),
    };
    let alive = nodes.nodes.iter().filter(|node| node.alive);
    // A demand that is already placed on a node is left out: that node starts its worker.
    let of_nodes = alive.clone().flat_map(|node| &node.pending).filter(|demand| demand.may_spill);
    let mut demands: Vec<Demand> = of_nodes.chain(&nodes.pending).filter_map(demand).collect();
    if demands.iter().any(|demand| demand.count >= REQUESTS_MAX) {
        let told = app.answers.rows(&app, Resource::Tasks).await?;
        raise(&mut demands, &told.rows);
    }
    let waiting = |info: &&GroupInfo| {
        matches!(info.phase, GroupPhase::Pending | GroupPhase::Prepared | GroupPhase::Rescheduling)
    };
    Ok(reply::json(&ScalingState {
        nodes: alive.map(node).collect(),
        demands,
        gangs: groups.groups.iter().filter(waiting).map(gang).collect(),
        constraints: serde_json::from_slice(&wanted).unwrap_or_else(|_| json!([])),
    }))
}

/// `PUT /api/autoscaler/report`: what the autoscaler plans, for people.
pub(crate) async fn report(State(app): State<Arc<App>>, body: Body) -> Result<Reply, Refusal> {
    let value = read(body, BODY_MAX).await?;
    serde_json::from_slice::<Value>(&value)
        .map_err(|error| Refusal::bad(format!("The report is not JSON: {error}.")))?;
    let put = KvPut {
        namespace: NAMESPACE.to_owned(),
        key: REPORT.to_vec(),
        value: value.into(),
        overwrite: true,
    };
    app.asker.ask(put).await.map_err(Refusal::unavailable)?;
    Ok(reply::json(&Done {}))
}

/// `POST /api/autoscaler/drain`: `{"node_id", "reason", "grace_s"}`; without a grace the node leaves when what runs
/// there has ended.
pub(crate) async fn drain(State(app): State<Arc<App>>, body: Body) -> Result<Reply, Refusal> {
    let body = read(body, BODY_MAX).await?;
    let body: Value = serde_json::from_slice(&body)
        .map_err(|error| Refusal::bad(format!("The request is not JSON: {error}.")))?;
    let id = body["node_id"].as_str().unwrap_or_default();
    let node_id =
        NodeId::from_hex(id).map_err(|_| Refusal::bad(format!("{id:?} is not a node's id.")))?;
    let reason = body["reason"].as_str().unwrap_or("the autoscaler ends it").to_owned();
    let grace_ms = (body["grace_s"].as_f64().unwrap_or_default() * 1000.0) as u64;
    let drain = DrainNode { node_id, reason, grace_ms, is_cancelled: false };
    app.asker.ask(drain).await.map_err(Refusal::missing)?;
    Ok(reply::json(&Done {}))
}

fn node(info: &NodeInfo) -> ScaledNode {
    let labels = selector(&info.labels);
    ScaledNode {
        node_id: info.address.node_id.hex(),
        instance_id: info.instance_id.clone(),
        node_type: labels.get("ray.io/node-group").cloned(),
        ip: info.address.host.clone(),
        is_head: info.is_head,
        is_idle: info.is_idle,
        is_draining: info.is_draining,
        total: quantities(&without_bundles(&info.total)),
        available: quantities(&without_bundles(&info.available)),
        labels,
    }
}

/// A process asks for so many workers at a time for calls of one shape, however many wait: how many those are, the
/// calls themselves are asked.
const REQUESTS_MAX: u64 = 16;

/// Raises what may be cut to the number of calls that wait in that shape.
fn raise(demands: &mut [Demand], tasks: &[Row]) {
    let waits = |row: &&Row| row["state"] == "PENDING_NODE_ASSIGNMENT";
    for demand in demands.iter_mut().filter(|demand| demand.count >= REQUESTS_MAX) {
        let alike = tasks.iter().filter(waits);
        let alike = alike.filter(|row| row["required_resources"] == json!(demand.resources));
        demand.count = demand.count.max(alike.count() as u64);
    }
}

/// Returns the demand of the autoscaler; `None` for one within a placement group, which waits for the group's own room,
/// and for one that is bound to a node.
fn demand(demand: &PendingDemand) -> Option<Demand> {
    let Strategy { kind, soft, labels, fallbacks, .. } = &demand.strategy;
    let is_bound = *kind == StrategyKind::NodeAffinity && !soft;
    if *kind == StrategyKind::PlacementGroup || is_bound {
        return None;
    }
    let mut selectors = vec![selector(labels)];
    selectors.extend(fallbacks.iter().map(|fallback| selector(&fallback.labels)));
    Some(Demand {
        resources: quantities(&as_asked(&demand.resources)),
        count: demand.count,
        selectors,
    })
}

fn gang(info: &GroupInfo) -> Gang {
    let placed = |index: usize| info.places.iter().find(|place| place.bundle as usize == index);
    let bundles = info.spec.bundles.iter().enumerate();
    let missing = bundles.filter(|(index, _)| placed(*index).is_none()).map(|(_, bundle)| {
        let Bundle { resources, labels } = bundle;
        MissingBundle { resources: quantities(resources), selectors: [selector(labels)] }
    });
    Gang {
        id: info.spec.group_id.hex(),
        name: info.spec.name.clone(),
        strategy: info.spec.strategy.name(),
        bundles: missing.collect(),
        held: info.places.iter().map(|place| place.node_id.hex()).collect(),
    }
}

fn selector(labels: &[Label]) -> BTreeMap<String, String> {
    labels.iter().map(|label| (label.key.clone(), label.value.clone())).collect()
}

fn quantities(resources: &ResourceSet) -> BTreeMap<String, f64> {
    resources.iter().map(|(name, quantity)| (name.to_owned(), quantity.to_f64())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(count: u64, waiting: usize, expect: u64) {
        let row = |state: &str, cpus: f64| {
            json!({ "state": state, "required_resources": { "CPU": cpus } }).as_object().cloned()
        };
        let mut rows: Vec<Row> =
            (0..waiting).filter_map(|_| row("PENDING_NODE_ASSIGNMENT", 1.0)).collect();
        rows.extend(row("RUNNING", 1.0));
        rows.extend(row("PENDING_NODE_ASSIGNMENT", 2.0));
        let resources = BTreeMap::from([("CPU".to_owned(), 1.0)]);
        let mut demands = [Demand { resources, count, selectors: Vec::new() }];
        raise(&mut demands, &rows);
        assert_eq!(demands[0].count, expect);
    }

    #[test]
    fn a_demand_that_may_be_cut_is_as_large_as_what_waits() {
        check(REQUESTS_MAX, 1000, 1000);
        check(REQUESTS_MAX, 3, REQUESTS_MAX);
        check(REQUESTS_MAX - 1, 1000, REQUESTS_MAX - 1);
    }
}
