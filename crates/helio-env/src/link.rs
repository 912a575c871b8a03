//! Whether the machine's link to others is up: a pulled cable is seen on the machine itself.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

/// Whether the interface that leads to the network of this address has a carrier. True where that cannot be
/// found out: an IPv6 address, another namespace's table.
#[must_use]
pub fn is_up(ip: IpAddr) -> bool {
    is_up_in(Path::new("/"), ip)
}

fn is_up_in(root: &Path, ip: IpAddr) -> bool {
    let IpAddr::V4(ip) = ip else { return true };
    let Ok(routes) = fs::read_to_string(root.join("proc/net/route")) else { return true };
    let Some(interface) = interface(&routes, ip) else { return true };
    // An interface that is switched off has no carrier to read.
    let carrier = fs::read_to_string(root.join("sys/class/net").join(interface).join("carrier"));
    carrier.is_ok_and(|carrier| carrier.trim() == "1")
}

/// The interface of the narrowest network that the address is in, without gateways: a line is an interface,
/// destination, gateway, flags, three counters and the mask; addresses are in hexadecimal, last byte first.
fn interface(routes: &str, ip: Ipv4Addr) -> Option<&str> {
    let ip = u32::from_le_bytes(ip.octets());
    let networks = routes.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let hexadecimal = |index: usize| u32::from_str_radix(fields.get(index)?, 16).ok();
        let (network, gateway, mask) = (hexadecimal(1)?, hexadecimal(2)?, hexadecimal(7)?);
        let is_inside = gateway == 0 && mask != 0 && ip & mask == network;
        is_inside.then(|| (mask.count_ones(), fields[0]))
    });
    networks.max_by_key(|(width, _)| *width).map(|(_, interface)| interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t01004D0A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t00004D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
ib0\t0000A8C0\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
";

    #[test]
    fn the_interface_is_that_of_the_network() {
        assert_eq!(interface(ROUTES, Ipv4Addr::new(10, 77, 0, 3)), Some("eth0"));
        assert_eq!(interface(ROUTES, Ipv4Addr::new(192, 168, 9, 1)), Some("ib0"));
        assert_eq!(interface(ROUTES, Ipv4Addr::new(8, 8, 8, 8)), None);
        assert_eq!(interface("", Ipv4Addr::new(10, 77, 0, 3)), None);
    }

    #[test]
    fn a_link_without_a_carrier_is_down() {
        let root = std::env::temp_dir().join(format!("helio-link-{}", std::process::id()));
        let carrier = root.join("sys/class/net/eth0/carrier");
        fs::create_dir_all(carrier.parent().expect("a folder")).expect("made");
        fs::create_dir_all(root.join("proc/net")).expect("made");
        fs::write(root.join("proc/net/route"), ROUTES).expect("written");
        let ip = IpAddr::from([10, 77, 0, 3]);
        for (text, is_it_up) in [("1\n", true), ("0\n", false)] {
            fs::write(&carrier, text).expect("written");
            assert_eq!(is_up_in(&root, ip), is_it_up);
        }
        fs::remove_file(&carrier).expect("removed");
        assert!(!is_up_in(&root, ip), "it is switched off");
        assert!(is_up_in(&root, IpAddr::from([8, 8, 8, 8])), "not known");
        fs::remove_dir_all(&root).expect("removed");
    }
}
