//! Connections to a server that is not of the cluster, such as a store of its state: the authorities that this machine
//! believes there, and the certificate that it shows where one is asked for, are files of their own.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::Error;
use crate::identity::{certificates, name_of, of_file, provider};
use crate::reasons::sentence;

/// Files in which systems keep the authorities that they believe.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A file of PEM, and the variable that names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// The variable.
    pub variable: &'static str,
    /// The file.
    pub path: PathBuf,
}

/// The certificates that such connections show and believe.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientFiles {
    /// The authorities of the server's certificate; `None`: those of the system.
    pub authority: Option<Named>,
    /// The certificate and its key for servers that ask.
    pub shown: Option<(Named, Named)>,
}

impl ClientFiles {
    /// Whether the files are of use; they are read again for each connection.
    ///
    /// # Errors
    /// Names the variable and the file that is not.
    pub fn check(&self) -> Result<(), Error> {
        self.config().map(drop)
    }

    /// The connecting end of a session with the host, which its certificate has to name. The handshake is made by the first
    /// writing or reading.
    ///
    /// # Errors
    /// As [`ClientFiles::check`], and when the host is neither an address nor a name.
    pub fn connect<S: Read + Write>(&self, host: &str, stream: S) -> Result<Encrypted<S>, Error> {
        let session = ClientConnection::new(self.config()?, name_of(host)?);
        let session = session.map_err(|error| Error(sentence(&error)))?;
        let authority = match &self.authority {
            Some(named) => named.variable.to_owned(),
            None => "the system's list; HELIOSTAT_CONTROL_STORE_CA_CERT names others".to_owned(),
        };
        Ok(Encrypted { stream: StreamOwned::new(session, stream), authority })
    }

    fn config(&self) -> Result<Arc<ClientConfig>, Error> {
        let broken = |error: rustls::Error| Error(format!("TLS cannot be set up: {error}"));
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(broken)?
            .with_root_certificates(self.roots()?);
        let config = match &self.shown {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(certificate.variable, &certificate.path)?;
                let private = PrivateKeyDer::from_pem_file(&key.path)
                    .map_err(|error| of_file(key.variable, &key.path, &error))?;
                builder
                    .with_client_auth_cert(chain, private)
                    .map_err(|error| of_file(key.variable, &key.path, &error))?
            }
        };
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        if let Some(Named { variable, path }) = &self.authority {
            for certificate in certificates(variable, path)? {
                roots.add(certificate).map_err(|error| of_file(variable, path, &error))?;
            }
            return Ok(roots);
        }
        let list = SYSTEM_AUTHORITIES.map(Path::new).into_iter().find(|path| path.exists());
        let Some(list) = list else {
            let text = "this system has no list of authorities: HELIOSTAT_CONTROL_STORE_CA_CERT is to name a file of them";
            return Err(Error(text.to_owned()));
        };
        roots.add_parsable_certificates(certificates("the system's list of authorities", list)?);
        Ok(roots)
    }
}

/// An encrypted connection; what goes wrong is said in words.
pub struct Encrypted<S: Read + Write> {
    stream: StreamOwned<ClientConnection, S>,
    authority: String,
}

impl<S: Read + Write> Encrypted<S> {
    /// The connection below, whose bytes are encrypted.
    pub fn carrier(&self) -> &S {
        &self.stream.sock
    }

    fn told(&self, error: io::Error) -> io::Error {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        let text = match cause {
            None => return error,
            Some(rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            )) => format!("its certificate is not of an authority in {}", self.authority),
            Some(rustls::Error::AlertReceived(alert)) => format!(
                "it ended the TLS session ({alert:?}): HELIOSTAT_CONTROL_STORE_CLIENT_CERT names the certificate that is \
                 shown to it"
            ),
            Some(cause) => sentence(cause),
        };
        io::Error::new(io::ErrorKind::InvalidData, text)
    }
}

impl<S: Read + Write> Read for Encrypted<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer);
        read.map_err(|error| self.told(error))
    }
}

impl<S: Read + Write> Write for Encrypted<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stream.write(bytes);
        written.map_err(|error| self.told(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.stream.flush();
        flushed.map_err(|error| self.told(error))
    }
}

impl<S: Read + Write> fmt::Debug for Encrypted<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encrypted").finish_non_exhaustive()
    }
}
