//! The process's own memory, as far as its allocator says what happens to it. It is here and not in
//! `helio-env` because processes of users need it, and that crate would bring them `tokio`.

/// Gives memory that was freed back to the system; takes some milliseconds when that is much. By itself
/// the allocator keeps all that lies below something in use.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn malloc_trim(kept: usize) -> i32;
        }
        // SAFETY: it takes the allocator's own locks and touches only what is free.
        unsafe { malloc_trim(0) };
    }
}
