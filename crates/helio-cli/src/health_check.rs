//! `health-check`: whether the head of a cluster answers. It needs no daemon on this machine: init containers ask,
//! before there is one.

use helio_config::table::ADDRESS;

use crate::{folder, locate, observer, values};

pub(crate) fn run(address: Option<&str>) -> Result<(), String> {
    let named = address.map(str::to_owned).or_else(|| helio_env::settings::text(&ADDRESS));
    let named = named.filter(|address| !matches!(address.as_str(), "" | "auto"));
    let address = match named {
        Some(address) => address,
        None => locate::choose(&folder::temp_dir(None), None)?.text("control_address").to_owned(),
    };
    let (host, port) = values::address(&address)?;
    observer::cluster(&host, port, &locate::token()?, None)?;
    Ok(())
}
