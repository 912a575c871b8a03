//! The fields of a request's query.

use std::collections::HashMap;

use helio_types::JobId;

use crate::parameters::flag;
use crate::reply::Refusal;

/// The query's fields; of one that is given twice the last counts.
pub(crate) struct Fields(HashMap<String, String>);

impl Fields {
    /// Reads the fields of a query as it stands in the address.
    pub(crate) fn parse(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// A list of one field.
    pub(crate) fn of(name: &str, value: &str) -> Self {
        Self(HashMap::from([(name.to_owned(), value.to_owned())]))
    }

    /// A field that says something.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty() && *value != "None")
    }

    /// Whether a field says yes; without it no.
    pub(crate) fn says(&self, name: &str) -> Result<bool, Refusal> {
        flag(name, self.get(name).unwrap_or_default()).map_err(Refusal::bad)
    }

    /// The id of a job; none where the field is not given.
    pub(crate) fn job_id(&self) -> Result<Option<JobId>, Refusal> {
        let wrong = |text| Refusal::bad(format!("`job_id` {text:?} is not the id of a job."));
        self.get("job_id").map(|text| JobId::from_hex(text).map_err(|_| wrong(text))).transpose()
    }

    /// A whole number; none where the field is not given.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let wrong = |text| Refusal::bad(format!("`{name}` must be a whole number, not {text:?}."));
        self.get(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    }
}
