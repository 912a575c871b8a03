//! Failures of a session, in words that say what to do.

use rustls::{AlertDescription, CertificateError, Error as Cause};

/// Returns the reason why this end gave up: the other end's certificate, or what it said of this
/// one's.
pub(crate) fn sentence(cause: &Cause) -> String {
    match cause {
        Cause::InvalidCertificate(why) => format!("its certificate {}", of_certificate(why)),
        Cause::AlertReceived(alert) => of_alert(*alert),
        Cause::NoCertificatesPresented => "it shows no certificate: RAY_USE_TLS=1 with RAY_TLS_SERVER_CERT, \
                                           RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT is to be set there"
            .to_owned(),
        Cause::InvalidMessage(_)
        | Cause::InappropriateMessage { .. }
        | Cause::InappropriateHandshakeMessage { .. } => {
            format!("what it sends is not TLS ({cause})")
        }
        _ => format!("TLS failed ({cause})"),
    }
}

/// Returns the fault of a certificate, and what to do.
pub(crate) fn of_certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "has expired: renew it, or set the clocks of both machines right".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet: set the clocks of both machines right".to_owned()
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "is not of an authority in RAY_TLS_CA_CERT".to_owned()
        }
        CertificateError::NotValidForName => {
            "does not name the address it was reached at".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "does not name {}, where it was reached; it names {}",
            expected.to_str(),
            if presented.is_empty() { "nothing".to_owned() } else { presented.join(", ") },
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is not made for both ends of a connection: its extended key usage must have serverAuth and clientAuth, \
             or be left out"
                .to_owned()
        }
        CertificateError::Revoked => "was revoked".to_owned(),
        other => format!("is of no use ({other})"),
    }
}

/// Returns the sentence for an alert that the other end sent.
fn of_alert(alert: AlertDescription) -> String {
    let ours = |what: &str| format!("it refuses the certificate of this machine: {what}");
    match alert {
        AlertDescription::CertificateExpired => {
            // The alert is the same for both.
            ours(
                "by the other machine's clock it has expired, or is not valid yet (renew it, or set the clocks of both \
                 machines right)",
            )
        }
        // The second: an authority of the same name with another key.
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            ours("it is not of an authority in the other machine's RAY_TLS_CA_CERT")
        }
        AlertDescription::CertificateRequired => ours("there is none"),
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown => ours(&format!("{alert:?}")),
        other => format!("it ended the TLS session ({other:?})"),
    }
}
