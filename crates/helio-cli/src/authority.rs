//! `--tls=auto`: who has the cluster's token signs its own certificate (decision 51).
//!
//! The authority's key is made from the token, the same on every machine, so nothing of it travels: a certificate that
//! it has signed proves the token. A daemon keeps its node's certificate in the session's folder, where all processes of the
//! node find it, and replaces it long before it ends.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use helio_config::session::TLS_FOLDER;
use helio_tls::{Files, Identity};
use helio_types::OPEN_TOKEN;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    PKCS_ED25519,
};

const DAY: Duration = Duration::from_secs(86_400);

/// Time for which a certificate is good.
const GOOD: Duration = Duration::from_secs(30 * 86_400);
/// Time by which clocks may be apart.
const CLOCKS: Duration = Duration::from_secs(2 * 86_400);
/// Age at which a certificate is made anew.
const RENEWED: Duration = Duration::from_secs(7 * 86_400);

/// The shortest token, in bytes: somebody who guesses the token makes the authority's key, so shorter ones are refused.
const TOKEN_MIN: usize = 32;

/// The bytes before the 32 bytes of a key of Ed25519 in PKCS #8.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// Shows such a certificate from now on, and keeps it fresh for as long as the process lives.
pub(crate) fn begin(session_dir: &Path, token: &str, host: &str) -> Result<Arc<Identity>, String> {
    let folder = session_dir.join(TLS_FOLDER);
    let identity = begin_for_now(&folder, token, host)?;
    let (token, host) = (token.to_owned(), host.to_owned());
    let renew = move || {
        let mut written = SystemTime::now();
        loop {
            // A machine that slept has not waited.
            std::thread::sleep(DAY / 24);
            if written.elapsed().is_ok_and(|since| since < RENEWED) {
                continue;
            }
            match write(&folder, &token, &host) {
                Ok(_) => written = SystemTime::now(),
                Err(error) => tracing::error!(%error, "the node's certificate is not renewed"),
            }
        }
    };
    let thread = std::thread::Builder::new().name("certificates".to_owned()).spawn(renew);
    thread.map_err(|error| error.to_string())?;
    Ok(identity)
}

/// Shows a certificate of the session, for a process that ends before the certificate is to be renewed.
pub(crate) fn begin_for_now(
    folder: &Path,
    token: &str,
    host: &str,
) -> Result<Arc<Identity>, String> {
    if helio_tls::current().map_err(|error| error.to_string())?.is_some() {
        return Err(
            "`--tls=auto` and RAY_USE_TLS=1 exclude each other: give one of them.".to_owned()
        );
    }
    let files = write(folder, token, host)?;
    helio_tls::show(files).map_err(|error| error.to_string())
}

/// The certificate of a driver's machine outside the cluster until it knows the head's address; `None`: its environment names
/// one, or no cluster was started with `--tls=auto` and this token.
pub(crate) fn of_guest(session_dir: &Path, token: &str) -> Result<Option<Arc<Identity>>, String> {
    let has_own = helio_tls::current().map_err(|error| error.to_string())?.is_some();
    if has_own || token == OPEN_TOKEN || token.len() < TOKEN_MIN {
        return Ok(None);
    }
    let folder = helio_env::draft::beside(&session_dir.join(TLS_FOLDER));
    let identity = write(&folder, token, "localhost")
        .and_then(|files| Identity::load(files).map(Arc::new).map_err(|error| error.to_string()));
    // It has been read, and need not be there.
    let _ = fs::remove_dir_all(&folder);
    identity.map(Some)
}

fn write(folder: &Path, token: &str, host: &str) -> Result<Files, String> {
    if token == OPEN_TOKEN {
        return Err(
            "`--tls=auto` makes certificates from the cluster's token: leave RAY_AUTH_MODE=disabled \
             out, or use RAY_USE_TLS=1 with certificates of your own."
                .to_owned(),
        );
    }
    // The token is the only secret: the authority's key is derived from it.
    if token.len() < TOKEN_MIN {
        return Err(format!(
            "`--tls=auto` needs a token that nobody can guess, of {TOKEN_MIN} characters at least: leave \
             HELIOSTAT_AUTH_TOKEN out, and the first start makes one."
        ));
    }
    let failed =
        |what: &dyn std::fmt::Display| format!("the node's certificate cannot be made: {what}");
    let issuer = authority(token).map_err(|error| failed(&error))?;
    let ours = certificate(&issuer, host).map_err(|error| failed(&error))?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| failed(&error))?;
    let files = Files::of_folder(folder);
    for (path, text) in [
        (&files.authority, ours.authority),
        (&files.key, ours.key),
        (&files.certificate, ours.certificate),
    ] {
        replace(path, &text).map_err(|error| failed(&error))?;
    }
    Ok(files)
}

/// Readers see the old file or the new one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let draft = helio_env::draft::beside(path);
    let mut options = fs::OpenOptions::new();
    let mut file = options.create_new(true).write(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    fs::rename(draft, path)
}

struct Ours {
    certificate: String,
    key: String,
    authority: String,
}

fn certificate(authority: &Authority, host: &str) -> Result<Ours, rcgen::Error> {
    let names = [host, "127.0.0.1", "localhost"];
    let mut params = CertificateParams::new(names.map(str::to_owned))?;
    params.distinguished_name = named("a node of heliostat");
    (params.not_before, params.not_after) = lifetime();
    let key = KeyPair::generate()?;
    let signed = params.signed_by(&key, &authority.issuer)?;
    Ok(Ours {
        certificate: signed.pem(),
        key: key.serialize_pem(),
        authority: authority.pem.clone(),
    })
}

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

fn authority(token: &str) -> Result<Authority, rcgen::Error> {
    let mut hash = blake2b_simd::Params::new();
    let hash = hash.hash_length(32).personal(b"heliostat tls  1").hash(token.as_bytes());
    let der = [&PKCS8[..], hash.as_bytes()].concat();
    let key = KeyPair::from_pkcs8_der_and_sign_algo(&der.as_slice().into(), &PKCS_ED25519)?;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.distinguished_name = named("those who have the token of a cluster of heliostat");
    (params.not_before, params.not_after) = lifetime();
    let pem = params.self_signed(&key)?.pem();
    Ok(Authority { issuer: Issuer::new(params, key), pem })
}

fn lifetime() -> (time::OffsetDateTime, time::OffsetDateTime) {
    let now = SystemTime::now();
    ((now - CLOCKS).into(), (now + GOOD).into())
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// Runs both ends of a handshake, until nothing is left to say.
    fn converse(client: &Identity, server: &Identity, host: &str) -> Result<(), helio_tls::Error> {
        let (mut client, mut server) = (client.connect(host)?, server.accept()?);
        while !client.outgoing().is_empty() || !server.outgoing().is_empty() {
            let said = client.outgoing().to_vec();
            client.sent(said.len());
            server.take(&said)?;
            let said = server.outgoing().to_vec();
            server.sent(said.len());
            client.take(&said)?;
        }
        assert!(client.is_open() && server.is_open());
        Ok(())
    }

    #[test]
    fn who_has_the_token_is_believed_and_nobody_else() {
        let folder = std::env::temp_dir().join(format!("helio-authority-{}", std::process::id()));
        let of = |name: &str, token: &str, host: &str| {
            let files = write(&folder.join(name), token, host).unwrap();
            Identity::load(files).unwrap()
        };
        let (one, two) = (of("one", TOKEN, "10.0.0.1"), of("two", TOKEN, "10.0.0.2"));
        assert_eq!(converse(&one, &two, "10.0.0.2"), Ok(()));
        assert_eq!(converse(&two, &one, "10.0.0.1"), Ok(()));
        let error = converse(&one, &two, "10.0.0.3").unwrap_err().0;
        assert!(error.contains("does not name 10.0.0.3"), "TLS-1: {error}");
        let stranger = of("stranger", &TOKEN.replace('0', "1"), "10.0.0.2");
        assert!(converse(&one, &stranger, "10.0.0.2").is_err(), "TLS-1");
        assert!(converse(&stranger, &two, "10.0.0.2").is_err(), "TLS-1");
        for (token, part) in [("short", "32 characters"), (OPEN_TOKEN, "RAY_AUTH_MODE")] {
            assert!(write(&folder.join("none"), token, "10.0.0.1").unwrap_err().contains(part));
        }
        assert!(!folder.join("none").exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
