//! Sets how the host is linked.

fn main() {
    println!("cargo::rerun-if-changed=packaging/build.rs");
    // A bitmap instead of 24 bytes for each address that the loader adjusts. Needs glibc 2.36, as of Debian 12.
    if cfg!(target_os = "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
