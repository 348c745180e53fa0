//! Compiles the library from its C sources by `cc` alone: in a checkout those of the repository, in a packaged crate the copy in c/.
use std::env;
use std::path::{Path, PathBuf};

/// c/ where its links work; else, in a checkout made without links, the repository around.
fn root() -> PathBuf {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    [here.join("c"), here.join("../..")]
        .into_iter()
        .find(|root| root.join("src/core/alloc.c").is_file() && root.join("include/heddle.h").is_file())
        .unwrap_or_else(|| panic!("heddle: neither {0}/c nor {0}/../.. holds the C sources", here.display()))
}

/// The C files of a directory whose names `choose` takes, sorted.
fn sources(directory: &Path, choose: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("heddle: {}: {}", directory.display(), error))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().map_or(false, |extension| extension == "c"))
        .filter(|path| choose(path.file_name().unwrap().to_str().unwrap()))
        .collect();
    found.sort();
    found
}

fn main() {
    let root = root();
    let source = root.join("src");
    let system = env::var("CARGO_CFG_TARGET_OS").unwrap();
    let system_file = format!("os_{}.c", system);
    let system_parts = format!("{}_", system);
    if !source.join("os").join(&system_file).is_file() {
        panic!("heddle: it does not run on {} yet: there is no src/os/{}", system, system_file);
    }

    let mut build = cc::Build::new();
    build.include(&source).include(root.join("include"));
    build.files(sources(&source.join("base"), |_| true));
    build.files(sources(&source.join("os"), |name| name == system_file || name.starts_with(&system_parts)));
    build.files(sources(&source.join("core"), |_| true));
    build.files(sources(&source.join("objects"), |_| true));
    // start_*.c defines no malloc; C++'s operators come down to malloc by themselves.
    let overriding = env::var_os("CARGO_FEATURE_OVERRIDE").is_some();
    build.files(sources(&source.join("override"), |name| name.starts_with("start_") || (overriding && !name.starts_with("cxx_"))));

    // As cmake/Flags.cmake says why. Always with optimisation: a debug build tests the program, not its memory.
    build.opt_level(2).pic(true).warnings(false);
    for flag in ["-std=gnu11", "-fno-builtin", "-fvisibility=hidden", "-ftls-model=initial-exec", "-fno-lto"] {
        build.flag(flag);
    }
    for flag in ["-fno-semantic-interposition", "-fno-plt", "-Wa,-mbranches-within-32B-boundaries"] {
        build.flag_if_supported(flag);
    }
    build.cargo_metadata(false).compile("heddle");

    println!("cargo:rustc-link-search=native={}", env::var("OUT_DIR").unwrap());
    println!("cargo:rustc-link-lib=static=heddle");
    println!("cargo:rustc-link-lib=dylib=pthread");
    println!("cargo:rustc-link-lib=dylib=dl");
    println!("cargo:include={}", root.join("include").display());
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", source.display());
    println!("cargo:rerun-if-changed={}", root.join("include").display());
}
