//! The parameters that each route takes in its query, in one table: a misspelt one is refused, since an answer that
//! passes it over looks like the answer that was asked for.
//!
//! Routes that stand not in the table take any: what probes health and versions adds parameters of its own.

use axum::extract::{MatchedPath, Request};
use helio_config::nearest;

use crate::reply::Refusal;

/// The parameter that Ray's servers take with every route that they cache.
const NO_CACHE: &str = "nocache";

/// Lists, as Ray's clients ask for them (`limit` to `filter_values`), and what only the page and our clients do.
const LIST: &[&str] = &[
    "limit",
    "timeout",
    "detail",
    "exclude_driver",
    "filter_keys",
    "filter_predicates",
    "filter_values",
    "next",
    "order",
    "why",
    "age",
];

/// Logs, as Ray's clients ask for them.
const LOG: &[&str] = &[
    "node_id",
    "node_ip",
    "filename",
    "pid",
    "actor_id",
    "task_id",
    "submission_id",
    "attempt_number",
    "suffix",
    "lines",
    "filter_ansi_code",
    "timeout",
    "interval",
    "media_type",
    "download_filename",
    "format",
];

const ROUTES: &[(&str, &[&str])] = &[
    ("/api/v0/{resource}", LIST),
    ("/api/v0/{resource}/summarize", &["summary_by", "timeout", "age"]),
    ("/api/v0/tasks/timeline", &["job_id", "download"]),
    ("/api/v0/tasks/activity", &["since", "job_id", "most", "age"]),
    ("/api/v0/tasks/errors", &["age"]),
    ("/api/v0/logs", &["node_id", "node_ip", "glob", "detail", "timeout"]),
    (
        "/api/v0/logs/search",
        &["text", "ignore_case", "limit", "node_id", "node_ip", "glob", "timeout"],
    ),
    ("/api/v0/logs/{media}", LOG),
    ("/api/v0/stacks/{node}/{pid}", &["seconds", "memory"]),
    ("/api/v0/changes", &["of"]),
    ("/api/v0/cluster_metadata", &[]),
    ("/api/v0/datasets", &[]),
    ("/api/v0/tuning", &[]),
    ("/api/v0/serving", &[]),
    ("/api/v0/training", &[]),
    ("/api/v0/training/{run}/curves", &[]),
    ("/api/v0/metrics/past", &["from", "to", "points"]),
    ("/api/v0/metrics/machines", &["node_id", "from", "to", "points"]),
    ("/api/jobs", &[]),
    ("/api/jobs/", &[]),
    ("/api/jobs/{id}", &[]),
    ("/api/jobs/{id}/stop", &[]),
    ("/api/jobs/{id}/logs", &[]),
    ("/api/cluster_status", &["format"]),
    ("/api/serve/applications", &["api_type"]),
    ("/api/serve/applications/", &["api_type"]),
    ("/api/train/v2/runs/v1", &[]),
    ("/logical/actors", &["ids"]),
    ("/nodes", &["view"]),
    ("/nodes/{id}", &[]),
];

/// The refusal of a request with a parameter that its route does not take; none: it takes them all.
pub(crate) fn refusal(request: &Request) -> Option<Refusal> {
    let query = request.uri().query()?;
    let route = request.extensions().get::<MatchedPath>()?;
    unknown(route.as_str(), request.uri().path(), query).map(Refusal::bad)
}

fn unknown(route: &str, path: &str, query: &str) -> Option<String> {
    let (_, known) = ROUTES.iter().find(|(name, _)| *name == route)?;
    let is_known = |name: &str| name.is_empty() || name == NO_CACHE || known.contains(&name);
    let mut names = form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name);
    let name = names.find(|name| !is_known(name))?;
    let said = format!("There is no parameter `{name}` of {path}");
    Some(match (nearest(&name, known.iter().copied()), known) {
        (_, []) => format!("{said}: it takes none."),
        (Some(nearest), _) => {
            format!("{said}; did you mean `{nearest}`? It takes {}.", known.join(", "))
        }
        (None, _) => format!("{said}: it takes {}.", known.join(", ")),
    })
}

/// Reads a parameter that is true or false.
pub(crate) fn flag(name: &str, text: &str) -> Result<bool, String> {
    match &*text.to_lowercase() {
        "true" | "1" => Ok(true),
        "false" | "0" | "" => Ok(false),
        _ => Err(format!("`{name}` must be true or false, not {text:?}.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_of_the_table_is_one() {
        let router = include_str!("lib.rs");
        for (route, _) in ROUTES {
            assert!(router.contains(&format!("\"{route}\"")), "{route}");
        }
    }

    #[test]
    fn a_parameter_that_a_route_does_not_take_is_named_with_the_nearest() {
        let of = |route, query| unknown(route, route, query);
        let list = "/api/v0/{resource}";
        assert_eq!(of(list, "limit=5&filter_keys=a&filter_keys=b&nocache=1&"), None);
        let said = of(list, "limit=5&ordr=took").unwrap();
        assert!(said.contains("`ordr`") && said.contains("did you mean `order`?"), "{said}");
        let said = of(list, "colour=red").unwrap();
        assert!(!said.contains("did you mean") && said.contains("filter_values"), "{said}");
        let said = of("/api/v0/training", "limit=1").unwrap();
        assert!(said.ends_with("it takes none."), "{said}");
        assert_eq!(of("/api/healthz", "probe=7"), None);
    }
}
