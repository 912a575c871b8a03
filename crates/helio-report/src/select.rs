//! Choosing rows by the values of their columns.

use serde_json::Value;

use crate::Row;

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

    fn holds(&self, row: &Row) -> bool {
        let found = row.get(&self.column).map(shown).unwrap_or_default();
        (found.to_lowercase() == self.value.to_lowercase()) == self.is_equal
    }
}

/// The rows for which all filters hold.
///
/// # Errors
/// A sentence for the user, when a filter names no column.
pub fn select(rows: Vec<Row>, filters: &[Filter]) -> Result<Vec<Row>, String> {
    if let Some(first) = rows.first()
        && let Some(filter) = filters.iter().find(|filter| !first.contains_key(&filter.column))
    {
        return Err(format!("there is no column {:?} to filter by", filter.column));
    }
    Ok(rows.into_iter().filter(|row| filters.iter().all(|filter| filter.holds(row))).collect())
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

    fn check(filters: &[&str], expect: Result<&[u64], &str>) {
        let rows = [json!({"n": 1, "state": "ALIVE"}), json!({"n": 2, "state": "DEAD"})];
        let rows = rows.iter().filter_map(|row| row.as_object().cloned()).collect();
        let filters: Vec<Filter> =
            filters.iter().map(|text| Filter::parse(text).unwrap()).collect();
        let found = select(rows, &filters);
        let found =
            found.map(|rows| rows.iter().filter_map(|row| row["n"].as_u64()).collect::<Vec<_>>());
        assert_eq!(found.as_deref().map_err(String::as_str), expect);
    }

    #[test]
    fn rows_are_chosen_by_equality_of_text() {
        check(&[], Ok(&[1, 2]));
        check(&["state=alive"], Ok(&[1]));
        check(&["state != ALIVE", "n=2"], Ok(&[2]));
        check(&["state=x"], Ok(&[]));
        check(&["nothing=1"], Err("there is no column \"nothing\" to filter by"));
        assert!(Filter::parse("state").unwrap_err().contains("column=value"));
    }
}
