//! Label selectors: `v`, `!v`, `in(a,b)`, `!in(a,b)`, and `*`, `!*`: the label is there, or is not.

use helio_types::mutant;
use std::collections::BTreeMap;

use helio_proto::control::Label;

/// A condition on a label's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selector {
    /// Turns the answer round. A node without the label passes a negated selector.
    negated: bool,
    values: Values,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Values {
    /// No label value is written so.
    Any,
    Of(Vec<String>),
}

impl Selector {
    /// Reads a selector. Every text is one: what is not a list is a literal value.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        let (negated, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text),
        };
        let list = rest.strip_prefix("in(").and_then(|list| list.strip_suffix(')'));
        let values = match list {
            _ if rest == "*" => Values::Any,
            Some(list) => {
                Values::Of(list.split(',').map(|value| value.trim().to_owned()).collect())
            }
            None => Values::Of(vec![rest.to_owned()]),
        };
        Self { negated, values }
    }

    /// Whether a node whose label has `value` (`None`: no such label) is selected.
    ///
    /// ```
    /// use helio_scheduler::Selector;
    ///
    /// let zones = Selector::parse("in(a, b)");
    /// assert!(zones.matches(Some("a")) && !zones.matches(Some("c")) && !zones.matches(None));
    /// // A node without the label passes a negated selector.
    /// assert!(Selector::parse("!a").matches(None));
    /// assert!(Selector::parse("*").matches(Some("anything")));
    /// ```
    #[must_use]
    pub fn matches(&self, value: Option<&str>) -> bool {
        let is_one = |value: &str| match &self.values {
            Values::Any => true,
            Values::Of(values) => values.iter().any(|one| one == value),
        };
        let is_negated = self.negated && !mutant!("negated-selector-turned-round");
        value.is_some_and(is_one) != is_negated || mutant!("label-selector-ignored")
    }
}

/// The selectors of a request, read once.
pub(crate) fn parse_all(labels: &[Label]) -> Vec<(&str, Selector)> {
    labels.iter().map(|label| (label.key.as_str(), Selector::parse(&label.value))).collect()
}

pub(crate) fn all_match(selectors: &[(&str, Selector)], labels: &BTreeMap<String, String>) -> bool {
    selectors.iter().all(|(key, selector)| selector.matches(labels.get(*key).map(String::as_str)))
}

/// Whether the labels satisfy all of the kept selectors.
pub(crate) fn selected(
    selectors: &[(String, Selector)],
    labels: &BTreeMap<String, String>,
) -> bool {
    let is_selected = |(key, selector): &(String, Selector)| {
        selector.matches(labels.get(key).map(String::as_str))
    };
    selectors.iter().all(is_selected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_forms_select() {
        let check = |selector: &str, value: Option<&str>, expect: bool| {
            assert_eq!(Selector::parse(selector).matches(value), expect, "{selector} on {value:?}");
        };
        check("a", Some("a"), true);
        check("a", Some("b"), false);
        check("a", None, false);
        check("!a", Some("b"), true);
        check("!a", Some("a"), false);
        check("!a", None, true);
        check("in(a, b)", Some("b"), true);
        check("in(a,b)", Some("c"), false);
        check("in(a,b)", None, false);
        check("!in(a,b)", Some("a"), false);
        check("! in(a,b)", Some("c"), true);
        check("*", Some("c"), true);
        check("*", None, false);
        check("!*", Some("c"), false);
        check("!*", None, true);
    }
}
