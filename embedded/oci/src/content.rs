//! Digests of content, and JSON with one spelling.

use std::fmt;
use std::io::{self, Write};

use oci_spec::image::{Digest, DigestAlgorithm, Sha256Digest};
use ring::digest::{Context, SHA256};
use serde::Serialize;
use serde_json::Value;

use crate::Error;

/// The digest of some bytes.
pub fn digest_of(bytes: &[u8]) -> Digest {
    digest(ring::digest::digest(&SHA256, bytes).as_ref())
}

fn digest(hash: &[u8]) -> Digest {
    let hex = hash.iter().fold(String::with_capacity(64), |hex, byte| format!("{hex}{byte:02x}"));
    hex.parse::<Sha256Digest>().expect("a SHA-256 hash is 64 hexadecimal digits").into()
}

/// The hexadecimal digits of a digest, which name its blob. Only SHA-256 is used here.
pub(crate) fn hex(digest: &Digest) -> Result<&str, Error> {
    match digest.algorithm() {
        DigestAlgorithm::Sha256 => Ok(digest.digest()),
        _ => Err(Error::Algorithm(digest.clone())),
    }
}

/// A writer that knows the digest and the size of what has passed through it.
pub(crate) struct Hashing<W> {
    inner: W,
    /// ring's is fast in unoptimised builds, too, in which tests pack gigabytes.
    hash: Context,
    size: u64,
}

impl<W: fmt::Debug> fmt::Debug for Hashing<W> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Hashing").field("inner", &self.inner).field("size", &self.size).finish_non_exhaustive()
    }
}

impl<W: Write> Hashing<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, hash: Context::new(&SHA256), size: 0 }
    }

    pub(crate) fn finish(self) -> (W, Digest, u64) {
        (self.inner, digest(self.hash.finish().as_ref()), self.size)
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A document as bytes that depend on nothing but its content: the keys of every object are sorted, which they are not by
/// themselves in the maps of `oci-spec`.
pub(crate) fn json(document: &impl Serialize) -> Vec<u8> {
    let value = serde_json::to_value(document).expect("documents have string keys and finite numbers");
    sorted(value).to_string().into_bytes()
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().collect();
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(fields.into_iter().map(|(key, value)| (key, sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_writer_hashes_what_it_passes_on() {
        let mut writer = Hashing::new(Vec::new());
        writer.write_all(b"hel").unwrap();
        writer.write_all(b"lo").unwrap();
        let (bytes, digest, size) = writer.finish();
        assert_eq!((bytes.as_slice(), size), (b"hello".as_slice(), 5));
        assert_eq!(digest, digest_of(b"hello"));
        assert_eq!(digest.as_ref(), "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
    }

    #[test]
    fn the_order_of_a_map_does_not_show_in_a_document() {
        let map: HashMap<String, u8> = (0..26).map(|n| (char::from(b'a' + n).to_string(), n)).collect();
        let text = String::from_utf8(json(&map)).unwrap();
        assert!(text.starts_with(r#"{"a":0,"b":1,"c":2,"#), "{text}");
    }
}
