//! The Python of the tests, with the clients that they use.

use std::path::PathBuf;

/// The interpreter that has the clients: where the Makefile puts it.
pub fn interpreter() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let python = cache.expect("HOME is not set").join("c5c3/python/bin/python");
    assert!(python.exists(), "there is no {}; `make test` makes it", python.display());
    python
}
