//! Takes the definitions of images into the crate, so that the binary has them outside a checkout.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder =
        Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo says where the crate is")).join("../../images");
    let folder = folder.canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    collect(&folder, &mut files)?;
    files.sort();
    let mut code = String::from("pub(crate) const EMBEDDED: &[(&str, &str)] = &[\n");
    for file in files {
        let name = file.strip_prefix(&folder.display().to_string()).expect("it is below the folder");
        writeln!(code, "    ({:?}, include_str!({file:?})),", name.trim_start_matches('/')).expect("a string has room");
    }
    code.push_str("];\n");
    let out = env::var("OUT_DIR").expect("cargo says where to write");
    fs::write(Path::new(&out).join("embedded.rs"), code)
}

fn collect(folder: &Path, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path.display().to_string());
        }
    }
    Ok(())
}
