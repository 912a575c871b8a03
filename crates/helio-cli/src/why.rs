//! `why`: what the thing with an id waits for, or how it ended (WHY-1).

use helio_proto::inspect::Topic;
use helio_report::select::shown;
use helio_report::{Resource, Row};
use helio_types::{ActorId, JobId, ObjectId, PlacementGroupId, TaskId};

use crate::args::Why;
use crate::state::Cluster;
use crate::{output, plans, why_deployment, why_node, why_run, why_trial};

pub(crate) fn run(args: &Why) -> Result<(), String> {
    let cluster = Cluster::find(args.cluster.address.as_deref())?;
    output::line(&explain(&cluster, &args.id)?);
    if let Some(plan) = plans::of(&cluster, &args.id.to_ascii_lowercase()) {
        output::line(&format!("The autoscaler: {plan}."));
    }
    Ok(())
}

fn explain(cluster: &Cluster, given: &str) -> Result<String, String> {
    let id = &*given.to_ascii_lowercase();
    if let Ok(task) = TaskId::from_hex(id) {
        return asked(cluster, &task.0)?.ok_or_else(|| unknown("task", id));
    }
    if let Ok(actor) = ActorId::from_hex(id) {
        // The actor's creator knows its calls too.
        if let Some(text) = asked(cluster, &actor.0)? {
            return Ok(text);
        }
        let found = row(cluster, Resource::Actors, id)?.ok_or_else(|| unknown("actor", id))?;
        return Ok(of_actor(&found));
    }
    if let Ok(object) = ObjectId::from_hex(id) {
        // Nodes and workers have ids of the same length.
        if let Some(text) = asked(cluster, &object.0)? {
            return Ok(text);
        }
        if let Some(text) = why_node::of(cluster, id)? {
            return Ok(text);
        }
        if let Some(worker) = row(cluster, Resource::Workers, id)? {
            return of_worker(cluster, &worker);
        }
        return Err(unknown("object, node or worker", id));
    }
    if PlacementGroupId::from_hex(id).is_ok() {
        let found = row(cluster, Resource::Groups, id)?;
        let found = found.ok_or_else(|| unknown("placement group", id))?;
        return Ok(of_group(&found));
    }
    if JobId::from_hex(id).is_ok() {
        let found = row(cluster, Resource::Jobs, id)?.ok_or_else(|| unknown("job", id))?;
        return Ok(format!(
            "The job {:?} is {}.",
            field(&found, "entrypoint"),
            field(&found, "status")
        ));
    }
    let named: Vec<Row> = cluster
        .rows(Resource::Actors)?
        .into_iter()
        .filter(|row| field(row, "name") == given && field(row, "state") != "DEAD")
        .collect();
    if let [actor] = named.as_slice() {
        return explain(cluster, &field(actor, "actor_id"));
    }
    if !named.is_empty() {
        let spaces: Vec<String> = named
            .iter()
            .map(|row| format!("{} ({})", field(row, "actor_id"), field(row, "ray_namespace")))
            .collect();
        return Err(format!("Actors of several namespaces have that name: {}.", spaces.join(", ")));
    }
    if let Some(text) = of_submission(cluster, given)? {
        return Ok(text);
    }
    if let Some(text) = of_trials(cluster, given)? {
        return Ok(text);
    }
    if let Some(text) = why_run::of(cluster, given, &living_jobs(cluster)?)? {
        return Ok(text);
    }
    if let Some(text) = why_deployment::of(cluster, given)? {
        return Ok(text);
    }
    Err(format!(
        "{given:?} is not an id, and no actor, submitted job, trial, training run or deployment has that name: an object's id has 56 hex digits, a task's 48, a \
         placement group's 36, an actor's 32, a job's 8; a trial's is like a1b2c_00003. `list tasks --detail` shows what every task waits for."
    ))
}

/// The job that was submitted under that id.
fn of_submission(cluster: &Cluster, given: &str) -> Result<Option<String>, String> {
    let rows = cluster.rows(Resource::Jobs)?;
    let found = rows.iter().find(|row| field(row, "submission_id") == given);
    Ok(found.map(|job| {
        let (entry, status) = (field(job, "entrypoint"), field(job, "status"));
        let message = field(job, "message");
        format!("The job {given} ({entry:?}) is {status}. {message}").trim_end().to_owned()
    }))
}

/// The trials of searches that are called so, with what the actors say that run them.
fn of_trials(cluster: &Cluster, given: &str) -> Result<Option<String>, String> {
    let jobs = living_jobs(cluster)?;
    let mut texts = Vec::new();
    for trial in why_trial::named(cluster, given, &jobs)? {
        let of_actor = match trial.actor.as_str() {
            "" => String::new(),
            // The actor may have ended since.
            actor => explain(cluster, actor).map(|text| format!("\n{text}")).unwrap_or_default(),
        };
        texts.push(format!("{}{of_actor}", trial.text));
    }
    Ok((!texts.is_empty()).then(|| texts.join("\n\n")))
}

/// The jobs whose drivers live.
fn living_jobs(cluster: &Cluster) -> Result<Vec<String>, String> {
    let rows = cluster.rows(Resource::Jobs)?;
    let living = rows.iter().filter(|job| field(job, "status") == "RUNNING");
    Ok(living.map(|job| field(job, "job_id")).collect())
}

/// Asks the process that owns the id for its reason.
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

/// `text` as a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.trim().chars();
    let Some(first) = letters.next() else { return String::new() };
    let end = if text.trim().ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{}{}{end}", first.to_uppercase(), letters.as_str())
}

/// Returns the cause of an actor's death, as a sentence.
fn death(row: &Row) -> String {
    let message = row
        .get("death_cause")
        .and_then(|cause| cause.pointer("/actor_died_error_context/error_message"));
    message.map(shown).unwrap_or_default()
}

/// The answer about an actor that its maker, which has ended, would give.
fn of_actor(row: &Row) -> String {
    let name = field(row, "class_name");
    let (why, cause) = (field(row, "why"), death(row));
    match field(row, "state").as_str() {
        "ALIVE" => format!("{name} is alive (pid {}).", field(row, "pid")),
        "DEAD" => format!("{name} is dead. {}", sentence(&cause)).trim_end().to_owned(),
        "RESTARTING" => {
            let cause = sentence(&format!("Its last process ended: {cause}"));
            format!("{cause} {name} is being restarted: {why}.")
        }
        _ => format!("{name} is not there yet: {why}."),
    }
}

/// The answer about a placement group, in the words of `heliostat.util.why`.
fn of_group(row: &Row) -> String {
    let name = match field(row, "name").as_str() {
        "" => String::new(),
        name => format!(" {name:?}"),
    };
    let (state, why) = (field(row, "state"), field(row, "why"));
    match why.as_str() {
        "" => format!("The placement group{name} is {state}."),
        _ => format!("The placement group{name} is {state}: {why}."),
    }
}

fn of_worker(cluster: &Cluster, row: &Row) -> Result<String, String> {
    let (pid, id) = (field(row, "pid"), field(row, "worker_id"));
    if field(row, "is_alive") != "True" {
        return Ok(format!(
            "The process (pid {pid}) has ended. {}",
            sentence(&field(row, "exit_detail"))
        ));
    }
    if field(row, "worker_type") == "DRIVER" {
        return Ok(format!(
            "The process (pid {pid}) is the driver of job {}.",
            field(row, "job_id")
        ));
    }
    if let Some(actor) =
        cluster.rows(Resource::Actors)?.iter().find(|actor| field(actor, "pid") == pid)
    {
        return Ok(format!(
            "The process (pid {pid}) is alive: actor {}.",
            field(actor, "class_name")
        ));
    }
    let tasks = cluster.rows(Resource::Tasks)?;
    let is_here = |task: &&Row| field(task, "worker_id") == id && field(task, "state") == "RUNNING";
    let names: Vec<String> = tasks.iter().filter(is_here).map(|task| field(task, "name")).collect();
    Ok(match names.is_empty() {
        true => format!("The process (pid {pid}) is alive: {}.", field(row, "usage")),
        false => format!("The process (pid {pid}) is alive, and has {} to run.", names.join(", ")),
    })
}

fn unknown(what: &str, id: &str) -> String {
    format!(
        "No living process knows the {what} {id}: it has ended long ago, its owner has ended, or it is another \
         cluster's."
    )
}
