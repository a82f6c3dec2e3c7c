//! Turns the CRI's protocol into Rust types. The compiler is `protox`, so that no `protoc` needs to be installed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let protocol = protox::compile(["proto/v1.proto"], ["proto"])?;
    // Comments in the protocol hold indented examples, which rustdoc would take for tests.
    prost_build::Config::new().btree_map(["."]).disable_comments(["."]).compile_fds(protocol)?;
    println!("cargo::rerun-if-changed=proto");
    Ok(())
}
