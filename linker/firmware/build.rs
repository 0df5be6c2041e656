//! Hands the memory map to the linker.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    fs::copy("memory.x", out.join("memory.x")).expect("the memory map beside this file");
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rerun-if-changed=memory.x");
    // Start-up code and sections of cortex-m-rt, sections of defmt; no page alignment, for flash has no pages.
    for argument in ["-Tlink.x", "-Tdefmt.x", "--nmagic"] {
        println!("cargo:rustc-link-arg={argument}");
    }
}
