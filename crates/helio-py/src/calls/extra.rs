//! What a template carries from one front to the other, unread by the runtime: a `u32` length and JSON,
//! then the pickled exception classes that are retried.

use serde_json::{Value, json};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Extra {
    /// `module.name` of the function.
    pub(crate) function_name: String,
    /// Of a constructor: the module of the class.
    pub(crate) module: String,
    /// The placement group the call runs in, hex; empty: none.
    pub(crate) placement_group: String,
    /// Whether calls that it makes go there too.
    pub(crate) capture_children: bool,
    /// The runtime environment, JSON; empty: the job's.
    pub(crate) runtime_env: String,
    /// The generator's items are put, and the list of them is the one return.
    pub(crate) dynamic: bool,
    /// Each value that the generator yields has so many items; 0: it is one.
    pub(crate) per_yield: u32,
    /// Every exception is retried.
    pub(crate) retry_all: bool,
    /// A document: the tuple of exception classes that are retried; empty: none.
    pub(crate) retry: Vec<u8>,
}

impl Extra {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let text = json!({
            "function": self.function_name,
            "module": self.module,
            "group": self.placement_group,
            "capture": self.capture_children,
            "env": self.runtime_env,
            "dynamic": self.dynamic,
            "per_yield": self.per_yield,
            "retry_all": self.retry_all,
        })
        .to_string();
        let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(&self.retry);
        bytes
    }

    /// What other front ends left out takes its default.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Self::default() };
        let Some((text, retry)) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)
        else {
            return Self::default();
        };
        let fields: Value = serde_json::from_slice(text).unwrap_or_default();
        let text = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
        let flag = |name: &str| fields[name].as_bool().unwrap_or_default();
        Self {
            function_name: text("function"),
            module: text("module"),
            placement_group: text("group"),
            capture_children: flag("capture"),
            runtime_env: text("env"),
            dynamic: flag("dynamic"),
            per_yield: fields["per_yield"].as_u64().unwrap_or_default() as u32,
            retry_all: flag("retry_all"),
            retry: retry.to_vec(),
        }
    }
}
