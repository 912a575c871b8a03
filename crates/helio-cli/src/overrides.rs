//! Resources and labels that the environment sets, whatever a node's flags say: `RAY_OVERRIDE_RESOURCES`,
//! `RAY_OVERRIDE_LABELS`. Launchers of clouds tell a machine in this way what its kind has.

use std::collections::BTreeMap;

use helio_config::table::{OVERRIDE_LABELS, OVERRIDE_RESOURCES};
use serde_json::{Map, Value};

use crate::args::Offer;
use crate::values;

/// The flags as the environment changes them.
pub(crate) fn applied(flags: &Offer) -> Result<Offer, String> {
    match helio_env::settings::text(&OVERRIDE_RESOURCES) {
        Some(text) => with_resources(flags, &text)
            .map_err(|error| format!("OVERRIDE_RESOURCES of the environment: {error}")),
        None => Ok(flags.clone()),
    }
}

/// Labels that replace the node's own of the same key.
pub(crate) fn labels() -> Result<BTreeMap<String, String>, String> {
    let Some(text) = helio_env::settings::text(&OVERRIDE_LABELS) else {
        return Ok(BTreeMap::new());
    };
    let wrong = |error| format!("OVERRIDE_LABELS of the environment: {error}");
    values::labels(&text).map_err(wrong)
}

fn with_resources(flags: &Offer, text: &str) -> Result<Offer, String> {
    let mut told: Map<String, Value> = serde_json::from_str(text)
        .map_err(|error| format!("{error}; write JSON, such as {{\"CPU\": 4, \"X\": 1}}"))?;
    let mut take = |name: &str| match told.remove(name) {
        None => Ok(None),
        Some(value) => match value.as_f64().filter(|quantity| *quantity >= 0.0) {
            Some(quantity) => Ok(Some(quantity)),
            None => Err(format!("the quantity of {name:?} must be a number, not {value}")),
        },
    };
    let (cpus, gpus) = (take("CPU")?, take("GPU")?);
    let (memory, store) = (take("memory")?, take("object_store_memory")?);
    let mut others = match flags.resources.as_deref() {
        Some(own) => values::resources(own)?,
        None => BTreeMap::new(),
    };
    others.extend(values::resources(&Value::Object(told).to_string())?);
    Ok(Offer {
        num_cpus: cpus.or(flags.num_cpus),
        num_gpus: gpus.or(flags.num_gpus),
        memory: memory.map(|bytes| bytes as u64).or(flags.memory),
        object_store_memory: store.map(|bytes| bytes as u64).or(flags.object_store_memory),
        resources: (!others.is_empty())
            .then(|| serde_json::to_string(&others))
            .transpose()
            .map_err(|error| error.to_string())?,
        ..flags.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_replaces_what_flags_say_and_keeps_the_rest() {
        let flags = Offer {
            num_cpus: Some(2.0),
            num_gpus: Some(1.0),
            resources: Some(r#"{"X": 1, "Y": 2}"#.to_owned()),
            ..Offer::default()
        };
        let told =
            r#"{"CPU": 8, "memory": 1e9, "object_store_memory": 100000000, "Y": 3, "Z": 0.5}"#;
        let offer = with_resources(&flags, told).unwrap();
        assert_eq!((offer.num_cpus, offer.num_gpus), (Some(8.0), Some(1.0)));
        assert_eq!(
            (offer.memory, offer.object_store_memory),
            (Some(1_000_000_000), Some(100_000_000))
        );
        assert_eq!(
            values::resources(&offer.resources.unwrap()).unwrap(),
            [("X", 1.0), ("Y", 3.0), ("Z", 0.5)].map(|(name, has)| (name.to_owned(), has)).into()
        );
        assert_eq!(with_resources(&Offer::default(), "{}").unwrap().resources, None);
    }

    #[test]
    fn what_is_no_object_of_numbers_is_refused() {
        for (text, said) in [
            ("4", "write JSON"),
            (r#"{"CPU": "many"}"#, "\"CPU\" must be a number"),
            (r#"{"CPU": -1}"#, "\"CPU\" must be a number"),
            (r#"{"X": []}"#, "\"X\" must be a number"),
        ] {
            let error = with_resources(&Offer::default(), text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
