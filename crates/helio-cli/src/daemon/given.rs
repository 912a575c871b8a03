//! The arguments and settings of the daemon, checked before any file is made.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use helio_tls::Identity;

use crate::args::{Node, Offer};
use crate::old_sessions::Kept;
use crate::own_ip::own_ip;
use crate::{folder, kubernetes, overrides, settings, values};

/// The arguments and settings of the start.
pub(super) struct Given {
    /// The resources that the node offers, after overrides.
    pub(super) offer: Offer,
    pub(super) resources: BTreeMap<String, f64>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) token: String,
    /// The address of this machine.
    pub(super) host: String,
    /// The sessions that stay on the disk.
    pub(super) kept: Kept,
    /// The certificate of this machine, if a setting names one.
    pub(super) identity: Option<Arc<Identity>>,
    pub(super) temp_dir: PathBuf,
    /// A session that ends with its driver is the driver's machine's alone, and shows it to nobody.
    pub(super) is_local: bool,
}

impl Given {
    /// Reads them all.
    ///
    /// # Errors
    /// A sentence for the user: what is wrong, and what to do.
    pub(super) fn read(args: &Node) -> Result<Self, String> {
        let offer = overrides::applied(&args.offer)?;
        let resources =
            offer.resources.as_deref().map(values::resources).transpose()?.unwrap_or_default();
        let mut labels = kubernetes::labels()?;
        // Later ones win: flags over what the pod says, and the overrides over both.
        labels.extend(offer.labels.as_deref().map(values::labels).transpose()?.unwrap_or_default());
        labels.extend(overrides::labels()?);
        let token = token(args.head)?;
        let host = args.host.clone().unwrap_or_else(|| own_ip().to_string());
        let kept = settings::kept_sessions()?;
        // A certificate of no use is told at once, and not when the first machine comes.
        let identity = helio_tls::current().map_err(|error| format!("{error}."))?;
        let temp_dir = folder::temp_dir(offer.temp_dir.as_deref());
        let is_local = args.head && args.owner_driver;
        let is_shown = !is_local && args.gateway.is_none();
        if let Some(identity) = identity.as_ref().filter(|_| is_shown) {
            identity.names(&host).map_err(|error| format!("{error}."))?;
        }
        Ok(Self { offer, resources, labels, token, host, kept, identity, temp_dir, is_local })
    }
}

/// The cluster's token. Only a head may make a new one; a cluster that runs already refuses a node without one.
fn token(is_head: bool) -> Result<String, String> {
    let token = match is_head {
        true => helio_env::token::load_or_create(),
        false => helio_env::token::load().map(Option::unwrap_or_default),
    };
    token.map_err(|error| {
        format!(
            "no authentication token: {error}. Name another file that has one with HELIOSTAT_AUTH_TOKEN_PATH, or \
             give the token itself in HELIOSTAT_AUTH_TOKEN."
        )
    })
}
