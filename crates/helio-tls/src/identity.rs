//! The certificate that a process shows to other machines, and the authorities that it believes. Files that change are
//! read again for the next connection; those that are open go on as they are.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::{Resumption, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::reasons::of_certificate;
use crate::reread::Reread;
use crate::{Error, Files, Session};

/// The certificate and key of a process, and the authority that it trusts, read again when their files change.
pub struct Identity {
    files: Files,
    kept: Reread<Loaded>,
}

#[derive(Clone)]
struct Loaded {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    /// For HTTP: browsers have no certificate, the token says who they are.
    https: Arc<ServerConfig>,
}

impl Identity {
    /// Reads the files.
    ///
    /// # Errors
    /// Names the file that cannot be read, is not a PEM of its kind, or is not believed by the authority: what the other
    /// machines would refuse is refused here.
    pub fn load(files: Files) -> Result<Self, Error> {
        let paths = [&files.certificate, &files.key, &files.authority].map(Clone::clone);
        let kept = Reread::new(paths.to_vec(), || Loaded::read(&files))?;
        Ok(Self { files, kept })
    }

    /// The connecting end of a session with the host, which its certificate has to name.
    ///
    /// # Errors
    /// When the host is neither an address nor a name.
    pub fn connect(&self, host: &str) -> Result<Session, Error> {
        Session::client(self.loaded().client, name_of(host)?)
    }

    /// The accepting end of a session.
    ///
    /// # Errors
    /// Never with files that were of use.
    pub fn accept(&self) -> Result<Session, Error> {
        Session::server(self.loaded().server)
    }

    /// For a server of HTTP, which asks for no certificate.
    #[must_use]
    pub fn https(&self) -> Arc<ServerConfig> {
        self.loaded().https
    }

    /// For a client of HTTP within the cluster.
    ///
    /// # Errors
    /// When the host is neither an address nor a name.
    pub fn https_client(
        &self,
        host: &str,
    ) -> Result<(Arc<ClientConfig>, ServerName<'static>), Error> {
        Ok((self.loaded().client, name_of(host)?))
    }

    /// Whether the certificate names the host at which other machines reach this one.
    ///
    /// # Errors
    /// A sentence when it does not: the others would refuse it.
    pub fn names(&self, host: &str) -> Result<(), Error> {
        let path = &self.files.certificate;
        let chain = certificates("RAY_TLS_SERVER_CERT", path)?;
        let wrong = |why: String| {
            Error(format!(
                "RAY_TLS_SERVER_CERT={} {why}: other machines reach this one at {host} (`--node-ip-address` says where), \
                 which has to be among its subject alternative names",
                path.display()
            ))
        };
        let own = chain.first().ok_or_else(|| wrong("is empty".to_owned()))?;
        let name = name_of(host)?;
        let named =
            ParsedCertificate::try_from(own).and_then(|own| verify_server_name(&own, &name));
        named.map_err(|_| wrong("does not name this machine".to_owned()))
    }

    fn loaded(&self) -> Loaded {
        self.kept.current(|| Loaded::read(&self.files))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("files", &self.files).finish_non_exhaustive()
    }
}

pub(crate) fn name_of(host: &str) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| Error(format!("{host:?} is not the name of a host")))
}

impl Loaded {
    fn read(files: &Files) -> Result<Self, Error> {
        let chain = certificates("RAY_TLS_SERVER_CERT", &files.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .map_err(|error| of_file("RAY_TLS_SERVER_KEY", &files.key, &error))?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates("RAY_TLS_CA_CERT", &files.authority)? {
            roots
                .add(certificate)
                .map_err(|error| of_file("RAY_TLS_CA_CERT", &files.authority, &error))?;
        }
        let (roots, provider) = (Arc::new(roots), provider());
        let broken = |error: &dyn fmt::Display| Error(format!("TLS cannot be set up: {error}"));
        let peers =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| broken(&error))?;
        // This machine's certificate is checked as other machines check it.
        let (own, between) = chain.split_first().ok_or_else(|| broken(&"no certificate"))?;
        if let Err(error) = peers.verify_client_cert(own, between, UnixTime::now()) {
            let why = match &error {
                rustls::Error::InvalidCertificate(why) => of_certificate(why),
                other => format!("is of no use ({other})"),
            };
            let path = files.certificate.display();
            return Err(Error(format!("RAY_TLS_SERVER_CERT={path} {why}")));
        }
        let of_pair = |error: rustls::Error| {
            Error(format!(
                "RAY_TLS_SERVER_KEY={} is not the key of RAY_TLS_SERVER_CERT={} ({error})",
                files.key.display(),
                files.certificate.display()
            ))
        };
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| broken(&error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(of_pair)?;
        // Connections are few and last: a session that is taken up again would save nothing.
        client.resumption = Resumption::disabled();
        let of_server = || {
            ServerConfig::builder_with_provider(Arc::clone(&provider))
                .with_protocol_versions(&[&TLS13])
                .map_err(|error| broken(&error))
        };
        let mut server = of_server()?
            .with_client_cert_verifier(peers)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(of_pair)?;
        server.send_tls13_tickets = 0;
        let https =
            of_server()?.with_no_client_auth().with_single_cert(chain, key).map_err(of_pair)?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server), https: Arc::new(https) })
    }
}

/// The shortest key first: it is as good as any, and a third faster.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let mut provider = default_provider();
    let first = cipher_suite::TLS13_AES_128_GCM_SHA256;
    provider.cipher_suites.sort_by_key(|suite| *suite != first);
    Arc::new(provider)
}

pub(crate) fn certificates(
    variable: &str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| of_file(variable, path, &error))?;
    if found.is_empty() {
        return Err(of_file(variable, path, &"there is no certificate in it"));
    }
    Ok(found)
}

pub(crate) fn of_file(variable: &str, path: &Path, why: &dyn fmt::Display) -> Error {
    Error(format!("{variable}={} cannot be used: {why}", path.display()))
}
