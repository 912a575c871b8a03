//! A request to run a job: the body of `POST /api/jobs/`, read and checked. Pure.

use serde_json::{Map, Value};

/// The longest submission id, in bytes: it is part of a file's name.
const ID_MAX: usize = 128;

/// A job that is asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Request {
    /// A command for the shell.
    pub(crate) entrypoint: String,
    /// `None`: the server makes one up.
    pub(crate) submission_id: Option<String>,
    pub(crate) runtime_env: Map<String, Value>,
    pub(crate) metadata: Map<String, Value>,
    /// The fields `entrypoint_num_cpus`, `_num_gpus`, `_memory`, `_resources` and `_label_selector` that say
    /// something.
    pub(crate) needs: Map<String, Value>,
}

type Check = fn(&Value) -> bool;

const NEEDS: [(&str, &str, Check); 5] = [
    ("entrypoint_num_cpus", "a number, not negative", is_quantity),
    ("entrypoint_num_gpus", "a number, not negative", is_quantity),
    ("entrypoint_memory", "a whole number of bytes", |value| value.as_u64().is_some()),
    ("entrypoint_resources", "an object of numbers", |value| {
        value.as_object().is_some_and(|all| all.values().all(is_quantity))
    }),
    ("entrypoint_label_selector", "an object of strings", is_texts),
];

impl Request {
    /// Reads the body.
    ///
    /// # Errors
    /// A sentence that names the field.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, String> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|error| format!("The body is not JSON: {error}."))?;
        let Value::Object(mut body) = body else {
            return Err("The body must be a JSON object.".to_owned());
        };
        body.retain(|_, value| !value.is_null());
        let Some(Value::String(entrypoint)) = body.remove("entrypoint") else {
            return Err("`entrypoint` must be given, as a string.".to_owned());
        };
        if entrypoint.trim().is_empty() || entrypoint.contains('\0') {
            return Err("`entrypoint` must be a command of at least one word.".to_owned());
        }
        let named = |name: &str, body: &mut Map<String, Value>| match body.remove(name) {
            None => Ok(None),
            Some(Value::String(id)) => Ok(Some(id)),
            Some(other) => Err(wrong(name, "a string", &other)),
        };
        // The older name of the same.
        let older = named("job_id", &mut body)?;
        let submission_id = named("submission_id", &mut body)?.or(older);
        submission_id.as_deref().map_or(Ok(()), check_id)?;
        let mut object = |name: &str| match body.remove(name) {
            None => Ok(Map::new()),
            Some(Value::Object(found)) => Ok(found),
            Some(other) => Err(wrong(name, "an object", &other)),
        };
        let (runtime_env, metadata) = (object("runtime_env")?, object("metadata")?);
        if !metadata.values().all(Value::is_string) {
            return Err("`metadata` must be an object of strings.".to_owned());
        }
        if let Some(given) = runtime_env.get("env_vars").filter(|given| !given.is_null())
            && !is_texts(given)
        {
            return Err("`runtime_env.env_vars` must be an object of strings.".to_owned());
        }
        let mut needs = Map::new();
        for (name, expected, is_right) in NEEDS {
            match body.remove(name) {
                None => {}
                Some(value) if !is_right(&value) => return Err(wrong(name, expected, &value)),
                Some(value) if says_something(&value) => _ = needs.insert(name.to_owned(), value),
                Some(_) => {}
            }
        }
        match body.keys().next() {
            Some(unknown) => Err(format!("There is no field `{unknown}`.")),
            None => Ok(Self { entrypoint, submission_id, runtime_env, metadata, needs }),
        }
    }
}

/// Whether an id can be one: it becomes part of file names.
pub(crate) fn check_id(id: &str) -> Result<(), String> {
    let is_fine = (1..=ID_MAX).contains(&id.len())
        && !id.starts_with('.')
        && !id.contains(|c: char| c == '/' || c.is_control());
    if is_fine {
        Ok(())
    } else {
        Err(format!(
            "`submission_id` must have 1 to {ID_MAX} bytes, no `/` and no control characters, and not begin with a dot."
        ))
    }
}

fn wrong(name: &str, expected: &str, found: &Value) -> String {
    let found = found.to_string();
    let shown: String = found.chars().take(100).collect();
    format!("`{name}` must be {expected}, not {shown}.")
}

fn is_quantity(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number >= 0.0)
}

fn is_texts(value: &Value) -> bool {
    value.as_object().is_some_and(|all| all.values().all(Value::is_string))
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Object(all) => !all.is_empty(),
        other => other.as_f64().is_some_and(|number| number > 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_read() {
        let body = br#"{"entrypoint": "python x.py", "submission_id": "a b", "runtime_env": {"env_vars": {"A": "1"}},
            "metadata": {"k": "v"}, "entrypoint_num_cpus": 0.5, "entrypoint_num_gpus": 0, "entrypoint_resources": {},
            "job_id": null}"#;
        let read = Request::parse(body).unwrap();
        assert_eq!(
            (read.entrypoint.as_str(), read.submission_id.as_deref()),
            ("python x.py", Some("a b"))
        );
        assert_eq!(read.needs.keys().collect::<Vec<_>>(), ["entrypoint_num_cpus"]);
        assert_eq!(read.metadata["k"], "v");
        let read = Request::parse(br#"{"entrypoint": "x", "job_id": "old"}"#).unwrap();
        assert_eq!(read.submission_id.as_deref(), Some("old"));
    }

    #[test]
    fn a_wrong_body_is_refused_by_its_field() {
        for (body, named) in [
            ("", "not JSON"),
            ("[]", "object"),
            ("{}", "`entrypoint`"),
            (r#"{"entrypoint": 1}"#, "`entrypoint`"),
            (r#"{"entrypoint": " "}"#, "`entrypoint`"),
            (r#"{"entrypoint": "x", "submission_id": 5}"#, "`submission_id`"),
            (r#"{"entrypoint": "x", "submission_id": "../x"}"#, "`submission_id`"),
            (r#"{"entrypoint": "x", "submission_id": ""}"#, "`submission_id`"),
            (r#"{"entrypoint": "x", "runtime_env": []}"#, "`runtime_env`"),
            (
                r#"{"entrypoint": "x", "runtime_env": {"env_vars": {"A": 1}}}"#,
                "`runtime_env.env_vars`",
            ),
            (r#"{"entrypoint": "x", "metadata": {"a": 1}}"#, "`metadata`"),
            (r#"{"entrypoint": "x", "entrypoint_num_cpus": "1"}"#, "`entrypoint_num_cpus`"),
            (r#"{"entrypoint": "x", "entrypoint_memory": 1.5}"#, "`entrypoint_memory`"),
            (r#"{"entrypoint": "x", "entrypoint_resources": {"A": -1}}"#, "`entrypoint_resources`"),
            (r#"{"entrypoint": "x", "else": 1}"#, "`else`"),
        ] {
            let said = Request::parse(body.as_bytes()).unwrap_err();
            assert!(said.contains(named), "{body}: {said}");
        }
    }
}
