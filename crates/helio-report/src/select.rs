//! Choosing rows by the values of their columns.

use helio_config::nearest;
use serde_json::Value;

use crate::{Resource, Row};

/// A condition on a column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    /// The column.
    pub column: String,
    /// Whether it is to have the value, or not to.
    pub is_equal: bool,
    /// The value, as text; capitals do not count.
    pub value: String,
}

impl Filter {
    /// Reads `column=value` or `column!=value`.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        // `!=` first: it contains the other sign.
        let (column, value, is_equal) = match (text.split_once("!="), text.split_once('=')) {
            (Some((column, value)), _) => (column, value, false),
            (None, Some((column, value))) => (column, value, true),
            (None, None) => {
                return Err(format!("{text:?} is not a filter: use column=value or column!=value"));
            }
        };
        let (column, value) = (column.trim().to_owned(), value.trim().to_owned());
        Ok(Self { column, is_equal, value })
    }

    /// A column that the rows do not have, or a state that no row can have, is a mistake and no empty list.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn check(&self, resource: Resource) -> Result<(), String> {
        let Self { column, value, .. } = self;
        let names = resource.names(true);
        if !names.contains(&column.as_str()) {
            let meant = nearest(column, names.iter().copied());
            let meant = meant.map(|name| format!(" Did you mean {name}?")).unwrap_or_default();
            return Err(format!(
                "There is no column {column} to filter {} by, only {}.{meant}",
                resource.name(),
                names.join(", ")
            ));
        }
        match resource.states() {
            Some((of, states))
                if of == column && !states.iter().any(|one| one.eq_ignore_ascii_case(value)) =>
            {
                Err(format!(
                    "{value} is not a {column} of {}: {}.",
                    resource.name(),
                    states.join(", ")
                ))
            }
            _ => Ok(()),
        }
    }

    fn holds(&self, row: &Row) -> bool {
        let found = row.get(&self.column).map(shown).unwrap_or_default();
        (found.to_lowercase() == self.value.to_lowercase()) == self.is_equal
    }
}

/// The rows for which all filters hold.
#[must_use]
pub fn select(rows: Vec<Row>, filters: &[Filter]) -> Vec<Row> {
    rows.into_iter().filter(|row| filters.iter().all(|filter| filter.holds(row))).collect()
}

/// A value as people read it.
#[must_use]
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(filters: &[&str], expect: &[u64]) {
        let rows = [json!({"n": 1, "state": "ALIVE"}), json!({"n": 2, "state": "DEAD"})];
        let rows = rows.iter().filter_map(|row| row.as_object().cloned()).collect();
        let filters: Vec<Filter> =
            filters.iter().map(|text| Filter::parse(text).unwrap()).collect();
        let found = select(rows, &filters);
        let found: Vec<u64> = found.iter().filter_map(|row| row["n"].as_u64()).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn rows_are_chosen_by_equality_of_text() {
        check(&[], &[1, 2]);
        check(&["state=alive"], &[1]);
        check(&["state != ALIVE", "n=2"], &[2]);
        check(&["state=x"], &[]);
        assert!(Filter::parse("state").unwrap_err().contains("column=value"));
    }

    #[test]
    fn a_filter_that_no_row_can_pass_is_a_mistake() {
        let said = |text: &str| Filter::parse(text).unwrap().check(Resource::Tasks);
        assert_eq!(said("state=running"), Ok(()));
        assert_eq!(said("why!="), Ok(()));
        let column = said("stat=RUNNING").unwrap_err();
        assert!(
            column.contains("no column stat") && column.ends_with("Did you mean state?"),
            "{column}"
        );
        let state = said("state!=RUNING").unwrap_err();
        assert!(
            state.starts_with("RUNING is not a state of tasks: ") && state.contains("RUNNING"),
            "{state}"
        );
    }
}
