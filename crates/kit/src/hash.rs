//! Content hashes: the same content gets the same name, other content gets another.

use sha2::{Digest, Sha256};

/// Ten hexadecimal digits that stand for `content`: enough for the few generations of one object that exist at a time,
/// short enough for a name.
pub fn short(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    let first = u64::from_be_bytes(std::array::from_fn(|index| digest[index]));
    format!("{:010x}", first >> 24)
}

/// `base-hash`, within the 63 characters that a label and the name of a Job may have. A base that is too long is cut, and
/// told apart by a hash of its own.
pub fn named(base: &str, hash: &str) -> String {
    format!("{}-{hash}", truncate_base(base))
}

/// `base` itself if it leaves room for a hash behind it, or as much of it as does.
pub fn truncate_base(base: &str) -> String {
    const ROOM: usize = 63 - 11;
    if base.len() <= ROOM {
        return base.to_owned();
    }
    let end = (0..=ROOM - 11).rev().find(|&index| base.is_char_boundary(index)).unwrap_or_default();
    format!("{}-{}", base[..end].trim_end_matches(['-', '.']), short(base.as_bytes()))
}

/// [`short`] of a value, whatever order its maps were built in.
pub fn of_json(value: &serde_json::Value) -> String {
    // serde_json's map is sorted by key, so the text is canonical.
    short(value.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn the_hash_depends_on_content_and_not_on_order() {
        assert_eq!(super::of_json(&json!({"a": 1, "b": 2})), super::of_json(&json!({"b": 2, "a": 1})));
        assert_ne!(super::of_json(&json!({"a": 1})), super::of_json(&json!({"a": 2})));
        assert_eq!(super::short(b"").len(), 10);
    }

    #[test]
    fn a_name_fits_a_label_however_long_its_base_is() {
        assert_eq!(super::named("press", "0123456789"), "press-0123456789");
        let (a, b) = ("x".repeat(200), format!("{}y", "x".repeat(199)));
        assert_eq!(super::named(&a, "0123456789").len(), 63);
        assert_ne!(super::truncate_base(&a), super::truncate_base(&b));
    }
}
