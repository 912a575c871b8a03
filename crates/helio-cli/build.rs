//! Has the linker keep one of several functions with the same code, if it can: the wheel has a bound on its size
//! (decision 0003). `helio-py` is built with this file as well.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

const FOLD: &str = "link-arg=-Wl,--icf=all";

fn main() {
    // Not at every change of a file of the crate.
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    if variable("PROFILE") == "release" && linker_folds() {
        println!("cargo::rustc-{FOLD}");
    }
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_default()
}

/// Links an empty library with the flag. The linker is the toolchain's: `lld` on x86-64 Linux since Rust 1.90,
/// `bfd` elsewhere, which knows no such flag.
fn linker_folds() -> bool {
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--crate-name", "probe", "--crate-type", "cdylib", "-C", FOLD, "-"]);
    rustc.arg("--target").arg(variable("TARGET"));
    rustc.arg("-o").arg(Path::new(&variable("OUT_DIR")).join("probe"));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("linker=");
        option.push(linker);
        rustc.arg("-C").arg(option);
    }
    rustc.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    rustc.status().is_ok_and(|status| status.success())
}
