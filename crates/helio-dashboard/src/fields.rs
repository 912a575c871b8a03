//! The fields of a request's query.

use std::collections::HashMap;

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

    /// Whether a field says yes.
    pub(crate) fn says(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    }

    /// A whole number; none where the field is not given.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let wrong = |text| Refusal::bad(format!("`{name}` must be a whole number, not {text:?}."));
        self.get(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    }
}
