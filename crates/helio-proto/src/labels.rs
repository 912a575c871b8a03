//! Labels of nodes and selectors on them, which requests for actors, tasks and groups carry.

use crate::wire::messages;

messages! {
    /// Selectors on several labels, all of which must fit.
    pub struct Selectors { 1 labels: Vec<Label> }
    /// A label of a node, or a selector on one.
    pub struct Label {
        1 key: String,
        2 value: String,
    }
}
