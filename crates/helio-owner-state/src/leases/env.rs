//! The part of the other machines that leases see, and the way out.

use crate::calls::Calls;
use crate::context::Context;
use crate::objects::Objects;

/// The calls and objects as they are, and the context of the event.
#[derive(Debug)]
pub(crate) struct Env<'a> {
    pub(crate) calls: &'a Calls,
    pub(crate) objects: &'a Objects,
    pub(crate) ctx: &'a mut Context,
}
