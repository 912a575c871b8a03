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

mod client;
mod files;
mod identity;
mod public;
mod reasons;
mod reread;
mod session;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use helio_config::session::TLS_FOLDER;

pub use client::{ClientFiles, Encrypted, Named};
pub use files::Files;
pub use identity::Identity;
pub use public::{Key, Public, PublicFiles};
pub use session::Session;

/// The reason why a connection was not encrypted, or is over; a sentence without its end, for
/// people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

static CURRENT: Mutex<Option<Arc<Identity>>> = Mutex::new(None);
static SESSION: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Has this process show these files, whatever its environment says.
///
/// # Errors
/// Names the file that is of no use.
pub fn show(files: Files) -> Result<Arc<Identity>, Error> {
    let identity = Arc::new(Identity::load(files)?);
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&identity));
    Ok(identity)
}

/// Joins the session of that folder: where the environment names no files, those of a node that makes its own are
/// shown.
pub fn join(session_dir: &Path) {
    *SESSION.lock().unwrap_or_else(PoisonError::into_inner) = Some(session_dir.join(TLS_FOLDER));
}

fn of_session() -> Option<Files> {
    let folder = SESSION.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
    Some(Files::of_folder(&folder)).filter(|files| files.certificate.exists())
}

/// Returns the certificate that this process shows to other machines; `None`: neither its environment nor its session
/// asks for encryption.
///
/// # Errors
/// Names the variable that is missing, or the file that is of no use.
pub fn current() -> Result<Option<Arc<Identity>>, Error> {
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(identity) = &*current {
        return Ok(Some(Arc::clone(identity)));
    }
    let Some(files) = Files::of_environment()?.or_else(of_session) else { return Ok(None) };
    let identity = Arc::new(Identity::load(files)?);
    *current = Some(Arc::clone(&identity));
    Ok(Some(identity))
}
