//! libclang, with which RocksDB's C interface is read when it is compiled.

use std::{env, fs, path::Path};

/// What is said where it is missing.
pub(crate) const MISSING: &str =
    "RocksDB is NOT TESTED: libclang is missing; on Debian: apt-get install libclang-dev";

/// Whether it is where it is looked for: in `LIBCLANG_PATH`, or where distributions install it.
pub(crate) fn is_there() -> bool {
    if let Some(path) = env::var_os("LIBCLANG_PATH") {
        return Path::new(&path).exists();
    }
    let fixed = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu"];
    let fixed = fixed.map(Into::into).into_iter();
    let versions = fs::read_dir("/usr/lib").into_iter().flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        entry.file_name().to_str()?.starts_with("llvm").then(|| entry.path().join("lib"))
    });
    fixed.chain(versions).any(|folder| holds(&folder))
}

fn holds(folder: &Path) -> bool {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().into_string().ok()).any(|name| is_library(&name))
}

fn is_library(name: &str) -> bool {
    name == "libclang.so"
        || name == "libclang.dylib"
        || name.starts_with("libclang.so.")
        || (name.starts_with("libclang-") && name.contains(".so") && !name.contains("cpp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_told_from_its_cousins() {
        for name in ["libclang.so", "libclang-14.so.1", "libclang.so.1", "libclang.dylib"] {
            assert!(is_library(name), "{name}");
        }
        for name in ["libclang-cpp.so.14", "libclangAST.a", "libclang.a"] {
            assert!(!is_library(name), "{name}");
        }
    }
}
