//! Compression whose bytes depend on nothing but its input.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use flate2::{Compression as Level, GzBuilder};

use super::Compression;

/// What the compressor is given at a time. How input is cut may show in its output, and pipes cut as they like.
const PIECE: usize = 128 * 1024;

/// Rather fast than small: layers are made more often than they are sent. Another level gives every layer another digest.
const LEVEL: u32 = 4;

/// A writer that compresses, or does not.
pub(super) enum Squeeze<W: Write> {
    Plain(W),
    Gzip { encoder: Box<GzEncoder<W>>, piece: Vec<u8> },
}

impl<W: Write> Squeeze<W> {
    pub(super) fn new(inner: W, compression: Compression) -> Self {
        match compression {
            Compression::None => Self::Plain(inner),
            Compression::Gzip => {
                // 255 is "unknown" for the operating system; the header has no time and no name.
                let encoder = GzBuilder::new().mtime(0).operating_system(255).write(inner, Level::new(LEVEL));
                Self::Gzip { encoder: Box::new(encoder), piece: Vec::with_capacity(PIECE) }
            }
        }
    }

    /// Writes what is left; the inner writer.
    pub(super) fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(inner) => Ok(inner),
            Self::Gzip { mut encoder, piece } => {
                encoder.write_all(&piece)?;
                encoder.finish()
            }
        }
    }
}

impl<W: Write> Write for Squeeze<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(inner) => inner.write(bytes),
            Self::Gzip { encoder, piece } => {
                let taken = bytes.len().min(PIECE - piece.len());
                piece.extend_from_slice(&bytes[..taken]);
                if piece.len() == PIECE {
                    encoder.write_all(piece)?;
                    piece.clear();
                }
                Ok(taken)
            }
        }
    }

    /// Flushing a compressor would show in its output, so this waits for the end.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::digest_of;

    fn input() -> Vec<u8> {
        (0..600_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes().map(|byte| byte & 0x1f)).collect()
    }

    fn squeezed(pieces: usize) -> Vec<u8> {
        let mut writer = Squeeze::new(Vec::new(), Compression::Gzip);
        for piece in input().chunks(pieces) {
            writer.write_all(piece).unwrap();
            writer.flush().unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn how_input_is_cut_does_not_show() {
        let whole = squeezed(usize::MAX);
        assert_eq!(squeezed(1000), whole);
        assert_eq!(squeezed(131_073), whole);
        let mut back = Vec::new();
        GzDecoder::new(whole.as_slice()).read_to_end(&mut back).unwrap();
        assert_eq!(back, input());
    }

    /// If this fails, a new version of the compressor writes other bytes, and every layer gets a new digest: say so in the
    /// changelog.
    #[test]
    fn the_bytes_stay_the_same_over_versions() {
        insta::assert_snapshot!(digest_of(&squeezed(usize::MAX)), @"sha256:71bc15ba5ded4300c96d94f6240060916258233444d9bc922b5d6aba394f0383");
    }
}
