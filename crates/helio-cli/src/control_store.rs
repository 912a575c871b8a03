//! The store of the cluster's state on the head: a file of its session, or a store that other heads reach, too.

use std::time::Duration;

use blake2b_simd::Params;
use helio_config::session::CONTROL_PORT;
use helio_config::table::{
    CONTROL_LEASE_MS, CONTROL_STORE, CONTROL_STORE_CA_CERT, CONTROL_STORE_CLIENT_CERT,
    CONTROL_STORE_CLIENT_KEY, EXTERNAL_STORAGE_NAMESPACE, REDIS_ADDRESS, REDIS_CA_CERT,
    REDIS_CLIENT_CERT, REDIS_CLIENT_KEY, REDIS_PASSWORD, REDIS_USERNAME,
};
use helio_env::settings::{read, text};
use helio_storage::outside::{self, Kind, Leased, Target, Waiting, parse};
use helio_tls::{ClientFiles, Named};
use helio_types::address::host_port;

use crate::args::{Node, Store};
use crate::output;
use crate::starter::Starter;

/// The flags, as variables for the daemon: a list of processes must not show a password.
pub(crate) fn environment(flags: &Store) -> Vec<(&'static str, String)> {
    let given = [
        ("HELIOSTAT_CONTROL_STORE", &flags.control_store),
        ("RAY_REDIS_USERNAME", &flags.redis_username),
        ("RAY_REDIS_PASSWORD", &flags.redis_password),
    ];
    given.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
}

/// Returns the reason to refuse a start with the variables of this process and these flags, if
/// there is one.
pub(crate) fn refusal(flags: &Store) -> Option<String> {
    let given = environment(flags);
    helio_config::refusal(&|name: &str| {
        let flag = given.iter().find(|(known, _)| *known == name);
        flag.map(|(_, value)| value.clone()).or_else(|| helio_env::settings::variable(name))
    })
}

/// The variable that names the store.
pub(crate) fn given() -> &'static str {
    if text(&CONTROL_STORE).is_some() { "HELIOSTAT_CONTROL_STORE" } else { "RAY_REDIS_ADDRESS" }
}

/// The store that flags and variables name, for the cluster of that token; `None`: a file.
pub(crate) fn target(flags: &Store, token: &str) -> Result<Option<Target>, String> {
    let address = flags.control_store.clone();
    let address = address.or_else(|| text(&CONTROL_STORE)).or_else(|| text(&REDIS_ADDRESS));
    let Some(address) = address else { return Ok(None) };
    let target = parse(&address)?;
    let is_redis = target.kind == Kind::Redis;
    let or = |flag: &Option<String>, setting, usual: String| {
        let given = flag.clone().or_else(|| text(setting));
        // These flags and variables are of Redis: for etcd the address alone counts.
        given.filter(|_| is_redis).unwrap_or(usual)
    };
    let encryption = match &target.encryption {
        Some(_) => Some(encryption(is_redis)?),
        None => None,
    };
    Ok(Some(Target {
        encryption,
        username: or(&flags.redis_username, &REDIS_USERNAME, target.username.clone()),
        password: or(&flags.redis_password, &REDIS_PASSWORD, target.password.clone()),
        namespace: read(&EXTERNAL_STORAGE_NAMESPACE)?,
        cluster: mark(token),
        lease: Duration::from_millis(read(&CONTROL_LEASE_MS)?),
        ..target
    }))
}

/// The files for encrypted connections to a store; for Redis, those that Ray's variables name, too.
fn encryption(is_redis: bool) -> Result<ClientFiles, String> {
    let named = |own, variable, of_redis, variable_of_redis| {
        let given = text(own).map(|path| (variable, path));
        let ray = || text(of_redis).filter(|_| is_redis).map(|path| (variable_of_redis, path));
        given.or_else(ray).map(|(variable, path)| Named { variable, path: path.into() })
    };
    let authority = named(
        &CONTROL_STORE_CA_CERT,
        "HELIOSTAT_CONTROL_STORE_CA_CERT",
        &REDIS_CA_CERT,
        "RAY_REDIS_CA_CERT",
    );
    let certificate = named(
        &CONTROL_STORE_CLIENT_CERT,
        "HELIOSTAT_CONTROL_STORE_CLIENT_CERT",
        &REDIS_CLIENT_CERT,
        "RAY_REDIS_CLIENT_CERT",
    );
    let key = named(
        &CONTROL_STORE_CLIENT_KEY,
        "HELIOSTAT_CONTROL_STORE_CLIENT_KEY",
        &REDIS_CLIENT_KEY,
        "RAY_REDIS_CLIENT_KEY",
    );
    let shown = match (certificate, key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (Some(Named { variable, .. }), None) => {
            return Err(format!("{variable} is set and the variable of its key is not"));
        }
        (None, Some(Named { variable, .. })) => {
            return Err(format!("{variable} is set and the variable of its certificate is not"));
        }
    };
    let files = ClientFiles { authority, shown };
    files.check().map_err(|error| error.to_string())?;
    Ok(files)
}

/// Returns a mark that tells clusters apart and does not reveal the token.
fn mark(token: &str) -> String {
    let hash = Params::new().hash_length(16).personal(b"control store").hash(token.as_bytes());
    hash.to_hex().to_string()
}

/// Opens the store for a daemon, at once or when the head that has it gives it up.
pub(crate) fn open(
    target: &Target,
    args: &Node,
    host: &str,
    starter: &mut Starter,
) -> Result<Leased, String> {
    let port = if args.port == 0 { CONTROL_PORT } else { args.port };
    let holder = format!("the head at {} (process {})", host_port(host, port), std::process::id());
    let opened = outside::open(target, &holder, |waiting| {
        let text = match waiting {
            Waiting::For(who) => format!(
                "This head waits: {who} leads the cluster whose state is at {}. It takes over when that one ends or is \
                 silent for {} s.",
                target.name(),
                target.lease.as_secs_f64(),
            ),
            Waiting::Copied(entries) => format!(
                "This head has a copy of the cluster's state, of {entries} entries now, and follows what changes."
            ),
            Waiting::Store(why) => {
                format!("{} cannot be used: {why}. Trying again.", target.name())
            }
        };
        tracing::warn!("{text}");
        starter.note(&text);
    });
    let store = opened.map_err(|error| error.to_string())?;
    tracing::info!(store = target.name(), "this head leads the cluster");
    Ok(store)
}

/// `cleanup-control-store`.
pub(crate) fn clean(flags: &Store) -> Result<(), String> {
    let target = target(flags, "")?.ok_or(
        "`--control-store` or RAY_REDIS_ADDRESS is to say where the state is that is to be deleted",
    )?;
    match outside::clean(&target).map_err(|error| error.to_string())? {
        true => output::line(&format!("Deleted the cluster's state at {}.", target.name())),
        false => return Err(format!("there is no cluster's state at {}", target.name())),
    }
    Ok(())
}
