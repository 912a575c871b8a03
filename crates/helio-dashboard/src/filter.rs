//! Filters of a list's rows by a column: is it that value, or not that value. Pure.

use helio_report::calls::{Field, Found, Of};
use helio_report::select::shown;
use helio_report::{Resource, Row};
use serde_json::Value;

use crate::parameters::flag;

/// A filter by a column.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) column: String,
    /// Whether the column has that value; otherwise it has another one.
    pub(crate) is_equal: bool,
    pub(crate) value: String,
}

impl Filter {
    /// Checks that some row can have the value: otherwise the filter is a mistake, and no list without rows.
    pub(crate) fn check(&self, resource: Resource) -> Result<(), String> {
        let Self { column, value, .. } = self;
        let text = |kind: &str| format!("`filter_values` of {column} are {kind}, not {value:?}.");
        if let Some((_, states)) = resource.states().filter(|(name, _)| name == column)
            && !states.iter().any(|state| state.eq_ignore_ascii_case(value))
        {
            return Err(text(&states.join(", ")));
        }
        let Some(of) = resource.columns().iter().find(|of| of.name == column) else {
            return Ok(());
        };
        if self.is_null_same() {
            return Ok(());
        }
        if of.is_number() && value.parse::<f64>().is_err() {
            return Err(text("numbers"));
        }
        if of.is_flag() && flag("", value).is_err() {
            return Err(text("true or false"));
        }
        Ok(())
    }

    fn is_null_same(&self) -> bool {
        self.value.is_empty() || self.value == "None"
    }

    pub(crate) fn holds(&self, row: &Row) -> bool {
        let found = row.get(&self.column).unwrap_or(&Value::Null);
        let is_same = match found {
            Value::Bool(found) => *found == matches!(&*self.value.to_lowercase(), "true" | "1"),
            // A filter by a null column is by no value at all.
            Value::Null => self.is_null_same(),
            found => shown(found).to_lowercase() == self.value.to_lowercase(),
        };
        is_same == self.is_equal
    }
}

/// A filter on calls: of a value that many share it is decided once.
pub(crate) struct OfCalls<'a> {
    filter: &'a Filter,
    column: Of,
    number: Option<u64>,
    /// Whether each shared value fits, by its number; none: not decided yet.
    known: Vec<Option<bool>>,
}

impl<'a> OfCalls<'a> {
    pub(crate) fn new(filter: &'a Filter) -> Self {
        // `07` is no number as rows show them.
        let number = filter.value.parse().ok().filter(|n: &u64| n.to_string() == filter.value);
        Self { filter, column: Of::named(&filter.column), number, known: Vec::new() }
    }

    pub(crate) fn holds(&mut self, call: &Found<'_>) -> bool {
        let filter = self.filter;
        match call.field(self.column) {
            Field::Shared(number) => {
                let number = number as usize;
                if let Some(Some(known)) = self.known.get(number) {
                    return *known;
                }
                if self.known.len() <= number {
                    self.known.resize(number + 1, None);
                }
                *self.known[number].insert(filter.holds(&call.row()))
            }
            Field::Number(Some(number)) => (self.number == Some(number)) == filter.is_equal,
            Field::Number(None) => filter.is_null_same() == filter.is_equal,
            Field::InRow => filter.holds(&call.row()),
        }
    }
}
