//! Values of flags: resources and labels.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs as _};

use helio_types::address::split_host_port;
use serde_json::Value;

/// The least size of the object store, in bytes; Ray's.
const STORE_BYTES_MIN: u64 = 75 << 20;

/// The IP address that is given, or that a host's name stands for; of several one of version 4.
pub(crate) fn ip_of(host: &str) -> Result<String, String> {
    if host.parse::<IpAddr>().is_ok() {
        return Ok(host.to_owned());
    }
    let found = (host, 0).to_socket_addrs().map_err(|error| format!("{host:?}: {error}"))?;
    let mut all: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    all.sort_by_key(IpAddr::is_ipv6);
    all.first().map(ToString::to_string).ok_or_else(|| format!("{host:?} has no address"))
}

/// Reads `--resources`.
pub(crate) fn resources(text: &str) -> Result<BTreeMap<String, f64>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        format!("`--resources` is not a valid JSON string, detail error: {error}. Try: --resources='{{\"X\": 1}}'")
    })?;
    let Value::Object(fields) = value else {
        return Err(format!(
            "`--resources` must be a JSON object of names and quantities, not {text}"
        ));
    };
    let mut resources = BTreeMap::new();
    for (name, value) in fields {
        if let "CPU" | "GPU" | "memory" | "object_store_memory" = name.as_str() {
            let flag = match name.as_str() {
                "CPU" => "--num-cpus",
                "GPU" => "--num-gpus",
                "memory" => "--memory",
                _ => "--object-store-memory",
            };
            return Err(format!("'{name}' should not be included in `--resources`; use `{flag}`"));
        }
        let quantity = value.as_f64().filter(|quantity| *quantity >= 0.0 && quantity.is_finite());
        let quantity = quantity.ok_or_else(|| {
            format!("`--resources`: the quantity of {name:?} must be a number that is not negative, not {value}")
        })?;
        resources.insert(name, quantity);
    }
    Ok(resources)
}

/// Reads `--labels`: pairs, or JSON.
pub(crate) fn labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let text = text.trim();
    let mut labels = BTreeMap::new();
    if text.starts_with('{') {
        let wrong = |what: String| format!("`--labels` is not a JSON object of strings: {what}");
        let fields: BTreeMap<String, Value> =
            serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        for (key, value) in fields {
            let Value::String(value) = value else {
                return Err(wrong(format!("{key:?} is {value}")));
            };
            check_label(&key, &value)?;
            labels.insert(key, value);
        }
        return Ok(labels);
    }
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            format!("`--labels`: {pair:?} is not a key-value pair. Each label must be key=value, e.g. --labels=\"a=b,c=d\"")
        })?;
        check_label(key.trim(), value.trim())?;
        labels.insert(key.trim().to_owned(), value.trim().to_owned());
    }
    Ok(labels)
}

/// Reads a labels file: a `key: value` a line, as in YAML; `#` begins a comment.
pub(crate) fn labels_file(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut labels = BTreeMap::new();
    for line in text.lines() {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') || line == "---" {
            continue;
        }
        let unquote = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
        let (key, value) = line
            .split_once(':')
            .ok_or_else(|| format!("`--labels-file`: {line:?} is not `key: value`"))?;
        let (key, value) = (unquote(key), unquote(value));
        check_label(&key, &value)?;
        labels.insert(key, value);
    }
    Ok(labels)
}

/// The rule of Kubernetes, which Ray's is, too: short words, and a prefix for keys.
fn check_label(key: &str, value: &str) -> Result<(), String> {
    let word = |text: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        text.len() <= 63
            && text.chars().all(inner)
            && edge(text.chars().next())
            && edge(text.chars().last())
    };
    let (prefix, name) =
        key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix_fits = prefix.is_none_or(|prefix| {
        !prefix.is_empty() && prefix.len() <= 253 && prefix.split('.').all(word)
    });
    if !prefix_fits || !word(name) {
        return Err(format!(
            "invalid label key {key:?}: letters, digits, '-', '_', '.', at most 63, with an optional prefix/"
        ));
    }
    if prefix == Some("ray.io") && name == "node-id" {
        return Err(format!("the label {key:?} is the system's own"));
    }
    if !value.is_empty() && !word(value) {
        return Err(format!(
            "invalid value {value:?} of label {key:?}: letters, digits, '-', '_', '.', at most 63"
        ));
    }
    Ok(())
}

/// Checks a count of CPUs or GPUs.
pub(crate) fn quantity(flag: &str, value: Option<f64>) -> Result<(), String> {
    match value {
        Some(value) if !value.is_finite() || value < 0.0 => {
            Err(format!("`{flag}` must not be negative, but is {value}"))
        }
        _ => Ok(()),
    }
}

/// Checks the object store's size.
pub(crate) fn store_size(bytes: Option<u64>) -> Result<(), String> {
    match bytes {
        Some(bytes) if bytes < STORE_BYTES_MIN => Err(format!(
            "Attempting to cap object store memory usage at {bytes} bytes, but the minimum allowed is {STORE_BYTES_MIN} bytes."
        )),
        _ => Ok(()),
    }
}

/// Splits `host:port`.
pub(crate) fn address(text: &str) -> Result<(String, u16), String> {
    let plain = text.strip_prefix("ray://").unwrap_or(text);
    let parts = split_host_port(plain)
        .and_then(|(host, port)| Some((host.to_owned(), port.parse::<u16>().ok()?)));
    parts
        .filter(|(host, port)| !host.is_empty() && *port > 0)
        .ok_or_else(|| format!("Malformed address {text:?}: expected '<host>:<port>'."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_its_address() {
        assert_eq!(ip_of("localhost").unwrap(), "127.0.0.1");
        assert_eq!(ip_of("10.0.0.7").unwrap(), "10.0.0.7");
        assert_eq!(ip_of("::1").unwrap(), "::1");
        assert!(ip_of("no such host").unwrap_err().contains("no such host"));
    }

    #[test]
    fn resources_are_read_or_explained() {
        let check = |text: &str, named: &str| {
            let error = resources(text).unwrap_err();
            assert!(error.contains(named) && error.contains("--resources"), "{text}: {error}");
        };
        assert_eq!(
            resources(r#"{"X": 1, "Y": 0.5}"#).unwrap(),
            BTreeMap::from([("X".into(), 1.0), ("Y".into(), 0.5)])
        );
        check("{broken", "not a valid JSON");
        check("[1]", "JSON object");
        check(r#"{"CPU": 1}"#, "--num-cpus");
        check(r#"{"X": -1}"#, "negative");
        check(r#"{"X": "1"}"#, "X");
    }

    #[test]
    fn labels_are_read_or_explained() {
        let expect = BTreeMap::from([
            ("a".to_owned(), "b".to_owned()),
            ("ray.io/zone".to_owned(), "z-1".to_owned()),
        ]);
        assert_eq!(labels("a=b, ray.io/zone=z-1").unwrap(), expect);
        assert_eq!(labels(r#"{"a": "b", "ray.io/zone": "z-1"}"#).unwrap(), expect);
        assert_eq!(labels_file("# all\na: b\nray.io/zone: \"z-1\" # here\n").unwrap(), expect);
        for wrong in ["a", "=b", "a=b c", "-a=b", "ray.io/node-id=1", r#"{"a": 1}"#] {
            assert!(labels(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_are_split() {
        assert_eq!(address("10.0.0.1:6379"), Ok(("10.0.0.1".to_owned(), 6379)));
        assert_eq!(address("ray://head:1"), Ok(("head".to_owned(), 1)));
        assert_eq!(address("[fd00::1]:6379"), Ok(("fd00::1".to_owned(), 6379)));
        for wrong in ["10.0.0.1", "fd00::1", ":5", "h:0", "h:99999", "h:x"] {
            assert!(address(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }
}
