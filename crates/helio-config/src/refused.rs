//! Variables of Ray's that ask for something which this release does not do, and whose want would be found too late:
//! state that was to outlive the machine and does not. They are refused at the start, not passed over.

use crate::setting::Environment;

struct Refused {
    /// Without `RAY_`.
    name: &'static str,
    /// Whether that text asks for what does not happen, where the head's state is in a store or not.
    asks: fn(text: &str, has_store: bool) -> bool,
    /// The sentence of the error: what holds instead, and what to do.
    instead: &'static str,
}

const REFUSED: &[Refused] = &[
    Refused {
        name: "gcs_storage",
        asks: |text, has_store| {
            let redis = has_store && text.eq_ignore_ascii_case("redis");
            !redis && !text.eq_ignore_ascii_case("memory")
        },
        instead: "the head keeps the cluster's state in a file of its session's folder, or in the Redis that \
                  RAY_REDIS_ADDRESS names. Unset it",
    },
    Refused {
        name: "external_storage_namespace",
        asks: |text, has_store| !has_store && text != "default",
        instead: "without RAY_REDIS_ADDRESS the cluster's state is in a file of the head's own, which no other cluster \
                  shares. Unset it",
    },
];

/// Returns the reason to refuse a start with these variables, if there is one.
#[must_use]
pub fn refusal(environment: Environment<'_>) -> Option<String> {
    let stores = ["RAY_REDIS_ADDRESS", "HELIOSTAT_CONTROL_STORE"];
    let is_given = |name: &&str| environment(name).is_some_and(|text| !text.trim().is_empty());
    let has_store = stores.iter().any(is_given);
    REFUSED.iter().find_map(|refused| {
        let name = format!("RAY_{}", refused.name);
        let text = environment(&name)?;
        let text = text.trim();
        let is_refused = !text.is_empty() && (refused.asks)(text, has_store);
        is_refused.then(|| format!("{name}={text} is refused: {}.", refused.instead))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str, is_refused: bool) {
        let found = refusal(&|wanted: &str| (wanted == name).then(|| text.to_owned()));
        assert_eq!(found.is_some(), is_refused, "{name}={text}: {found:?}");
        assert!(found.is_none_or(|found| found.contains(name) && found.contains("Unset it")));
    }

    #[test]
    fn only_what_asks_for_something_is_refused() {
        check("RAY_REDIS_ADDRESS", "redis:6379", false);
        check("RAY_gcs_storage", "redis", true);
        check("RAY_gcs_storage", "rocksdb", true);
        check("RAY_gcs_storage", "memory", false);
        check("RAY_external_storage_namespace", "cluster-a", true);
        check("RAY_external_storage_namespace", "default", false);
        check("RAY_USE_TLS", "1", false);
    }

    #[test]
    fn with_redis_its_settings_are_taken() {
        for (name, text) in [("RAY_gcs_storage", "redis"), ("RAY_external_storage_namespace", "a")]
        {
            let with_redis = |wanted: &str| match wanted {
                "RAY_REDIS_ADDRESS" => Some("redis:6379".to_owned()),
                wanted => (wanted == name).then(|| text.to_owned()),
            };
            assert_eq!(refusal(&with_redis), None);
        }
    }
}
