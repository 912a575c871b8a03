//! Two ends, with every certificate that may be shown, and bytes cut and broken anywhere.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use helio_proto::frame;
use helio_proto::hello::{PLAIN_HERE, Welcome};
use helio_tls::{Error, Files, Identity, Session};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

const DAY: Duration = Duration::from_secs(86_400);

/// A folder with an authority.
struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("helio-tls-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        fs::write(folder.join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    /// Writes a certificate for the host; it is good from so long ago for two days.
    fn sign(&self, host: &str, since: SystemTime) -> Files {
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (since.into(), (since + 2 * DAY).into());
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = Files {
            certificate: self.folder.join("cert.pem"),
            key: self.folder.join("key.pem"),
            authority: self.folder.join("ca.pem"),
        };
        fs::write(&files.certificate, certificate.pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    fn good(&self, host: &str) -> Files {
        self.sign(host, SystemTime::now() - DAY)
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Moves what one end has to say to the other, in steps of so many bytes.
fn pass(from: &mut Session, to: &mut Session, step: usize) -> Result<usize, Error> {
    let bytes = from.outgoing().to_vec();
    from.sent(bytes.len());
    for piece in bytes.chunks(step) {
        to.take(piece)?;
    }
    Ok(bytes.len())
}

/// Runs both ends until neither has anything to say. Returns what went wrong at each of them.
fn converse(client: &mut Session, server: &mut Session, step: usize) -> [Option<String>; 2] {
    let mut wrong = [None, None];
    loop {
        let to_server = pass(client, server, step);
        let to_client = pass(server, client, step);
        let is_quiet = matches!((&to_server, &to_client), (Ok(0), Ok(0)));
        for (end, outcome) in [to_client, to_server].into_iter().enumerate() {
            if let Err(error) = outcome {
                wrong[end].get_or_insert(error.0);
            }
        }
        if is_quiet || wrong.iter().all(Option::is_some) {
            return wrong;
        }
    }
}

fn pair(client: &Identity, server: &Identity, host: &str) -> (Session, Session) {
    (client.connect(host).unwrap(), server.accept().unwrap())
}

#[test]
fn what_is_said_arrives_however_it_is_cut() {
    let authority = Authority::new();
    let identity = Identity::load(authority.good("10.0.0.1")).unwrap();
    for step in [1, 5, 1000, 1 << 20] {
        let (mut client, mut server) = pair(&identity, &identity, "10.0.0.1");
        assert!(client.say(b"early").is_err(), "TLS-1: nothing is said before both ends are known");
        assert_eq!(converse(&mut client, &mut server, step), [None, None]);
        assert!(client.is_open() && server.is_open());
        for size in [1, 16 << 10, (16 << 10) + 1, 300_000] {
            let text: Vec<u8> = (0..size).map(|n| (n * 7 % 251) as u8).collect();
            client.say(&text).unwrap();
            server.say(&text[..size / 2]).unwrap();
            let is_heard = |part: &[u8]| part == &text[..8];
            assert!(size < 8 || !client.outgoing().windows(8).any(is_heard), "TLS-1");
            assert_eq!(converse(&mut client, &mut server, step), [None, None]);
            assert!(server.plain() == &text && *client.plain() == text[..size / 2]);
            server.plain().clear();
            client.plain().clear();
        }
    }
}

#[test]
fn each_end_hears_what_is_wrong() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let ours = Identity::load(ours.good("10.0.0.1")).unwrap();
    let theirs = Identity::load(theirs.good("10.0.0.1")).unwrap();
    let check = |client: &Identity, server: &Identity, host: &str, parts: [&str; 2]| {
        let (mut client, mut server) = pair(client, server, host);
        let wrong = converse(&mut client, &mut server, 700);
        for (said, part) in wrong.iter().zip(parts) {
            assert!(said.as_ref().is_some_and(|said| said.contains(part)), "{wrong:?}");
        }
        assert!(!server.is_open(), "TLS-1");
    };
    let names = "does not name 10.0.0.2, where it was reached; it names";
    check(
        &ours,
        &ours,
        "10.0.0.2",
        [names, "refuses the certificate of this machine: BadCertificate"],
    );
    check(
        &ours,
        &theirs,
        "10.0.0.1",
        ["is not of an authority in RAY_TLS_CA_CERT", "of an authority in the other machine's"],
    );
}

#[test]
fn a_certificate_that_others_would_refuse_is_refused_at_home() {
    let check = |files: Files, part: &str| {
        let error = Identity::load(files).unwrap_err().0;
        assert!(error.contains(part), "{error}");
    };
    let authority = Authority::new();
    let now = SystemTime::now();
    check(authority.sign("10.0.0.1", now - 3 * DAY), "has expired");
    check(authority.sign("10.0.0.1", now + DAY), "is not valid yet");
    let good = authority.good("10.0.0.1");
    let stranger = Authority::new();
    let foreign = stranger.good("10.0.0.1");
    check(Files { authority: foreign.authority.clone(), ..good.clone() }, "not of an authority");
    check(Files { key: foreign.key.clone(), ..good.clone() }, "is not the key of");
    check(Files { key: authority.folder.join("none.pem"), ..good.clone() }, "none.pem");
    check(Files { certificate: good.key.clone(), ..good.clone() }, "no certificate in it");
    fs::write(authority.folder.join("bad.pem"), "-----BEGIN CERTIFICATE-----\n!\n").unwrap();
    check(Files { authority: authority.folder.join("bad.pem"), ..good }, "RAY_TLS_CA_CERT=");
}

#[test]
fn files_that_change_are_what_the_next_connection_shows() {
    let authority = Authority::new();
    let identity = Identity::load(authority.good("10.0.0.1")).unwrap();
    let (mut client, mut server) = pair(&identity, &identity, "10.0.0.1");
    assert_eq!(converse(&mut client, &mut server, 1 << 20), [None, None]);
    let key = fs::read(authority.folder.join("key.pem")).unwrap();
    let files = authority.good("10.0.0.2");
    let new_key = fs::read(&files.key).unwrap();
    // Half of the change is there: the old pair stays.
    fs::write(&files.key, key).unwrap();
    let (mut again, mut other) = pair(&identity, &identity, "10.0.0.1");
    assert_eq!(converse(&mut again, &mut other, 1 << 20), [None, None]);
    fs::write(&files.key, new_key).unwrap();
    let (mut new, mut other) = pair(&identity, &identity, "10.0.0.2");
    assert_eq!(converse(&mut new, &mut other, 1 << 20), [None, None]);
    // And the connection of before goes on.
    client.say(b"still here").unwrap();
    assert_eq!(converse(&mut client, &mut server, 1 << 20), [None, None]);
    assert_eq!(server.plain(), b"still here");
}

#[test]
fn who_answers_in_the_clear_is_understood() {
    let authority = Authority::new();
    let identity = Identity::load(authority.good("10.0.0.1")).unwrap();
    let check = |answer: &[u8], part: &str| {
        for step in [1, answer.len()] {
            let mut client = identity.connect("10.0.0.1").unwrap();
            let error = answer.chunks(step).find_map(|piece| client.take(piece).err()).unwrap().0;
            assert!(error.contains(part), "{error}");
        }
    };
    let mut refusal = Vec::new();
    let welcome = Welcome { refused: PLAIN_HERE.to_owned(), ..Welcome::default() };
    frame::put(&mut refusal, |out| out.extend(helio_proto::encode(&welcome)));
    check(&refusal, PLAIN_HERE);
    check(b"HTTP/1.1 400 Bad Request\r\n\r\n", "not TLS");
}

/// A bit of a conversation is turned, at every place of it: the session fails, and nothing of it is believed.
#[test]
fn broken_bytes_end_the_session_and_nothing_else() {
    let authority = Authority::new();
    let identity = Identity::load(authority.good("10.0.0.1")).unwrap();
    let mut cut = 0;
    loop {
        let (mut client, mut server) = pair(&identity, &identity, "10.0.0.1");
        let mut seen = 0;
        let mut is_broken = false;
        let mut failed = false;
        for round in 0..8 {
            if round == 4 {
                failed |= client.say(b"never believed when broken").is_err();
            }
            let (from, to) = if round % 2 == 0 {
                (&mut client, &mut server)
            } else {
                (&mut server, &mut client)
            };
            let mut bytes = from.outgoing().to_vec();
            from.sent(bytes.len());
            if (seen..seen + bytes.len()).contains(&cut) {
                bytes[cut - seen] ^= 0x10;
                is_broken = true;
            }
            seen += bytes.len();
            failed |= to.take(&bytes).is_err();
        }
        if !is_broken {
            assert!(!failed && server.plain() == b"never believed when broken");
            return;
        }
        // A version or a length that is off may leave an end waiting.
        assert!(server.plain().is_empty() || server.plain() == b"never believed when broken");
        cut += 1;
    }
}
