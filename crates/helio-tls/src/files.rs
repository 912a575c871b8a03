//! The files with the certificate that a process shows, and those that it believes.

use std::path::{Path, PathBuf};

use helio_config::setting::{Environment, Row};
use helio_config::table::{TLS_CA_CERT, TLS_SERVER_CERT, TLS_SERVER_KEY, USE_TLS};
use helio_env::settings;

use crate::Error;

/// The three files, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificate of this machine, and what is between it and the authority.
    pub certificate: PathBuf,
    /// The file of the private key.
    pub key: PathBuf,
    /// The authorities whose certificates are believed.
    pub authority: PathBuf,
}

impl Files {
    /// Returns the files that a node which makes its own keeps in a folder.
    #[must_use]
    pub fn of_folder(folder: &Path) -> Self {
        Self {
            certificate: folder.join("certificate.pem"),
            key: folder.join("key.pem"),
            authority: folder.join("authority.pem"),
        }
    }

    pub(crate) fn of_environment() -> Result<Option<Self>, Error> {
        Self::read(&settings::variable)
    }

    fn read(environment: Environment<'_>) -> Result<Option<Self>, Error> {
        if !USE_TLS.read(environment).map_err(Error)? {
            return Ok(None);
        }
        let rows = [&TLS_SERVER_CERT.row, &TLS_SERVER_KEY.row, &TLS_CA_CERT.row];
        let given = |row: &Row| {
            let found = row.find(environment).map(|(_, text)| text);
            found.filter(|text| !text.trim().is_empty())
        };
        let missing: Vec<String> = rows
            .iter()
            .filter(|row| given(row).is_none())
            .flat_map(|row| row.variables())
            .collect();
        if let [Some(certificate), Some(key), Some(authority)] = rows.map(given) {
            return Ok(Some(Self {
                certificate: certificate.into(),
                key: key.into(),
                authority: authority.into(),
            }));
        }
        Err(Error(format!(
            "RAY_USE_TLS=1 needs RAY_TLS_SERVER_CERT, RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT, each the path of a PEM \
             file, and {} {} not set",
            missing.join(", "),
            if missing.len() == 1 { "is" } else { "are" },
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Option<Files>, Error> {
        Files::read(&|wanted: &str| {
            set.iter().find(|(name, _)| *name == wanted).map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn a_variable_that_is_missing_is_named() {
        let all = [
            ("RAY_USE_TLS", "1"),
            ("RAY_TLS_SERVER_CERT", "/c"),
            ("RAY_TLS_SERVER_KEY", "/k"),
            ("RAY_TLS_CA_CERT", "/a"),
        ];
        let files = Files { certificate: "/c".into(), key: "/k".into(), authority: "/a".into() };
        assert_eq!(read(&all), Ok(Some(files)));
        assert_eq!(read(&all[1..]), Ok(None));
        for left_out in 1..4 {
            let mut set = all.to_vec();
            let (name, _) = set.remove(left_out);
            let error = read(&set).unwrap_err().0;
            assert!(error.ends_with(&format!("and {name} is not set")), "{error}");
            set.push((name, " "));
            assert_eq!(read(&set).unwrap_err().0, error, "empty is not set");
        }
        assert!(
            read(&all[..2])
                .unwrap_err()
                .0
                .ends_with("RAY_TLS_SERVER_KEY, RAY_TLS_CA_CERT are not set")
        );
        assert!(read(&[("RAY_USE_TLS", "maybe")]).unwrap_err().0.contains("RAY_USE_TLS"));
    }
}
