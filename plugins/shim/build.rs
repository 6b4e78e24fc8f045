//! Tells the linker that the library stays in the process once it is loaded: its thread, or a call that is just
//! returning, would be left without its code.

#![allow(clippy::print_stdout, reason = "that is how a build script speaks")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|it| it == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
