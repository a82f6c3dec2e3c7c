//! Short names for contents: what `pod-template-hash` and the names of revisions are made of.

use serde::Serialize;

/// The letters and digits that names are made of: none that could form a word, or be taken for another.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A name for a content. A count of collisions gives the same content another.
pub(crate) fn of(content: &impl Serialize, collisions: Option<i32>) -> Result<String, serde_json::Error> {
    let mut bytes = serde_json::to_vec(content)?;
    if let Some(count) = collisions {
        bytes.extend(count.to_le_bytes());
    }
    let encode = |digit: u8| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]);
    Ok(fnv(&bytes).to_string().bytes().map(encode).collect())
}

/// FNV-1a in 32 bits: short, and stable for good, which no hash of the standard library is.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_has_one_name_and_another_after_a_collision() {
        assert_eq!(fnv(b"foobar"), 0xbf9c_f968);
        let name = |collisions| of(&"pear", collisions).unwrap();
        assert_eq!(name(None), name(None));
        assert_ne!(name(None), name(Some(0)));
        assert_ne!(name(Some(0)), name(Some(1)));
        assert!(name(None).bytes().all(|letter| ALPHABET.contains(&letter)));
    }
}
