//! `why`: what the thing with an id waits for, or how it ended (WHY-1).

use helio_proto::inspect::Topic;
use helio_report::select::shown;
use helio_report::{Resource, Row};
use helio_types::{ActorId, ObjectId, PlacementGroupId, TaskId};

use crate::args::Why;
use crate::output;
use crate::state::Cluster;

pub(crate) fn run(args: &Why) -> Result<(), String> {
    let cluster = Cluster::find(args.address.as_deref())?;
    output::line(&explain(&cluster, &args.id.to_ascii_lowercase())?);
    Ok(())
}

fn explain(cluster: &Cluster, id: &str) -> Result<String, String> {
    if let Ok(task) = TaskId::from_hex(id) {
        return asked(cluster, &task.0)?.ok_or_else(|| unknown("task", id));
    }
    if ActorId::from_hex(id).is_ok() {
        let found = row(cluster, Resource::Actors, id)?.ok_or_else(|| unknown("actor", id))?;
        return Ok(of_actor(&found));
    }
    if let Ok(object) = ObjectId::from_hex(id) {
        // Nodes and workers have ids of the same length.
        if let Some(text) = asked(cluster, &object.0)? {
            return Ok(text);
        }
        if let Some(node) = row(cluster, Resource::Nodes, id)? {
            let cause = field(&node, "state_message");
            return Ok(format!(
                "Node {} is {}. {cause}",
                field(&node, "node_ip"),
                field(&node, "state")
            )
            .trim_end()
            .to_owned());
        }
        if let Some(worker) = row(cluster, Resource::Workers, id)? {
            return Ok(of_worker(&worker));
        }
        return Err(unknown("object, node or worker", id));
    }
    if PlacementGroupId::from_hex(id).is_ok() {
        let found = row(cluster, Resource::Groups, id)?;
        let found = found.ok_or_else(|| unknown("placement group", id))?;
        let (state, why) = (field(&found, "state"), field(&found, "why"));
        return Ok(match why.as_str() {
            "" => format!("The placement group is {state}."),
            _ => format!("The placement group is {state}: {why}."),
        });
    }
    Err(format!(
        "{id:?} is no id: an object's has 56 hex digits, a task's 48, an actor's 32. `list tasks --detail` shows what \
         every task waits for."
    ))
}

/// What the process says that owns it.
fn asked(cluster: &Cluster, id: &[u8]) -> Result<Option<String>, String> {
    let told = cluster.inspect(Topic::Why, id)?;
    Ok(told.answers.into_iter().map(|answer| answer.why).find(|why| !why.is_empty()))
}

fn row(cluster: &Cluster, resource: Resource, id: &str) -> Result<Option<Row>, String> {
    let rows = cluster.rows(resource)?;
    Ok(rows.into_iter().find(|row| row.get(resource.key()).map(shown).as_deref() == Some(id)))
}

fn field(row: &Row, name: &str) -> String {
    row.get(name).filter(|value| !value.is_null()).map(shown).unwrap_or_default()
}

fn of_actor(row: &Row) -> String {
    let (name, why, cause) =
        (field(row, "class_name"), field(row, "why"), field(row, "death_cause"));
    match field(row, "state").as_str() {
        "ALIVE" => format!("{name} is alive, in process {}.", field(row, "pid")),
        "DEAD" => format!("{name} is dead. {cause}"),
        "RESTARTING" => {
            format!("{name} is being restarted: {why}. Its last process ended: {cause}")
        }
        _ => format!("{name} is not there yet: {why}."),
    }
}

fn of_worker(row: &Row) -> String {
    let pid = field(row, "pid");
    if field(row, "is_alive") == "True" {
        return format!("The process (pid {pid}) is alive: {}.", field(row, "usage"));
    }
    format!("The process (pid {pid}) has ended. {}", field(row, "exit_detail"))
}

fn unknown(what: &str, id: &str) -> String {
    format!(
        "No living process knows the {what} {id}: it has ended long ago, its owner has ended, or it is another \
         cluster's."
    )
}
