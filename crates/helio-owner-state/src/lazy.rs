//! Fields that few of a million objects and calls have: the others have one empty pointer for all of them.

use std::ops::{Deref, DerefMut};

/// The fields behind a [`Lazy`].
pub(crate) trait Rare: Default + 'static {
    /// The value of those that have none.
    fn none() -> &'static Self;
}

/// A value that takes memory from the first change on: [`Lazy::present`] is for changes that need none where there
/// is none.
#[derive(Debug, Default)]
pub(crate) struct Lazy<T>(Option<Box<T>>);

impl<T> Lazy<T> {
    pub(crate) fn present(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    pub(crate) fn into_present(self) -> Option<Box<T>> {
        self.0
    }
}

impl<T> From<T> for Lazy<T> {
    fn from(value: T) -> Self {
        Self(Some(Box::new(value)))
    }
}

impl<T: Rare> Deref for Lazy<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::none())
    }
}

impl<T: Rare> DerefMut for Lazy<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}
