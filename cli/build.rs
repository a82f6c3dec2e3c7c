//! Tells the linker to keep one of several functions that came out the same. Each crate that reads a kind of Kubernetes has
//! its own copy of the code for that: a third of the program, which would lie in memory and on disk again and again.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    // Where rustc brings its own linker, which can do that. A debug build is linked often and kept nowhere.
    let own_linker = is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu");
    if own_linker && is("PROFILE", "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
