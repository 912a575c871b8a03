//! Encryption of connections between machines: mutual TLS 1.3 with the certificates that `RAY_TLS_*` name
//! (decision 51).
//!
//! ```text
//!   connector ── Hello { to, is_encrypted } ──▶ acceptor      in the clear: whom it is for, and nothing else
//!             ══ TLS handshake, both show a certificate ══
//!             ── Hello { token, … } ──────────▶               and all that follows, inside the session
//! ```
//!
//! [`Session`] is one end of it as bytes in and bytes out: whoever has a socket moves them. [`Identity`] is what this
//! process shows and whom it believes.
//!
//! **TLS-1** Once encryption is asked for, nothing but that first frame crosses to another machine in the clear.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod files;
mod identity;
mod reasons;
mod session;

use std::sync::{Arc, Mutex, PoisonError};

pub use files::Files;
pub use identity::Identity;
pub use session::Session;

/// Why a connection was not encrypted, or is over; a sentence without its end, for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

static CURRENT: Mutex<Option<Arc<Identity>>> = Mutex::new(None);

/// What this process shows to other machines; `None`: its environment asks for no encryption.
///
/// # Errors
/// Names the variable that is missing, or the file that is of no use.
pub fn current() -> Result<Option<Arc<Identity>>, Error> {
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(identity) = &*current {
        return Ok(Some(Arc::clone(identity)));
    }
    let Some(files) = Files::of_environment()? else { return Ok(None) };
    let identity = Arc::new(Identity::load(files)?);
    *current = Some(Arc::clone(&identity));
    Ok(Some(identity))
}
