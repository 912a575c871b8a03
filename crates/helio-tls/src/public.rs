//! The certificate of a server for everybody: files that its user names. TLS 1.2 or 1.3, HTTP/2 or HTTP/1.1.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::Error;
use crate::identity::{certificates, of_file, provider};
use crate::reread::Reread;

/// The place of a private key.
#[derive(Clone, PartialEq, Eq)]
pub enum Key {
    /// A file of PEM.
    File(PathBuf),
    /// The PEM itself, for a key whose file is encrypted.
    Given(Vec<u8>),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Given(_) => f.write_str("Given"),
        }
    }
}

/// The files, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicFiles {
    /// The server's certificate, and what is between it and its authority.
    pub certificate: PathBuf,
    /// The private key.
    pub key: Key,
    /// The authorities of clients: with these, a client has to show a certificate.
    pub clients: Option<PathBuf>,
}

/// The certificate and key of a server that is open to everybody, read again when their files change.
pub struct Public {
    files: PublicFiles,
    kept: Reread<Arc<ServerConfig>>,
}

impl Public {
    /// Reads the files.
    ///
    /// # Errors
    /// Names the option and the file that is of no use.
    pub fn load(files: PublicFiles) -> Result<Self, Error> {
        let mut paths = vec![files.certificate.clone()];
        if let Key::File(path) = &files.key {
            paths.push(path.clone());
        }
        paths.extend(files.clients.clone());
        let kept = Reread::new(paths, || files.config())?;
        Ok(Self { files, kept })
    }

    /// For the next connection.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        self.kept.current(|| self.files.config())
    }
}

impl fmt::Debug for Public {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Public").field("files", &self.files).finish_non_exhaustive()
    }
}

impl PublicFiles {
    fn config(&self) -> Result<Arc<ServerConfig>, Error> {
        let chain = certificates("ssl_certfile", &self.certificate)?;
        let broken = |error: &dyn fmt::Display| Error(format!("TLS cannot be set up: {error}"));
        let key = match &self.key {
            Key::File(path) => PrivateKeyDer::from_pem_file(path)
                .map_err(|error| of_file("ssl_keyfile", path, &error))?,
            Key::Given(pem) => {
                PrivateKeyDer::from_pem_slice(pem).map_err(|error| broken(&error))?
            }
        };
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| broken(&error))?;
        let builder = match &self.clients {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates("ssl_ca_certs", path)? {
                    roots
                        .add(certificate)
                        .map_err(|error| of_file("ssl_ca_certs", path, &error))?;
                }
                let clients =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
                        .build()
                        .map_err(|error| broken(&error))?;
                builder.with_client_cert_verifier(clients)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            Error(format!(
                "ssl_keyfile is not the key of ssl_certfile={} ({error})",
                self.certificate.display()
            ))
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
