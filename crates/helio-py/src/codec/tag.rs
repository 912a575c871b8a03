//! The first byte of a document: what kind of value follows.

pub(super) const NONE: u8 = 0;
pub(super) const FALSE: u8 = 1;
pub(super) const TRUE: u8 = 2;
pub(super) const INT: u8 = 3;
pub(super) const FLOAT: u8 = 4;
pub(super) const STR: u8 = 5;
pub(super) const BYTES: u8 = 6;
pub(super) const PICKLE: u8 = 7;
pub(super) const PICKLE_BUFFERS: u8 = 8;
pub(super) const NDARRAY: u8 = 9;
pub(super) const DEPENDENCY: u8 = 10;
pub(super) const WITH_REFS: u8 = 11;
pub(super) const REFS: u8 = 12;
pub(super) const TREE: u8 = 13;
