//! Content hashes: the same content gets the same name, other content gets another.

use sha2::{Digest, Sha256};

/// Ten hexadecimal digits that stand for `content`: enough for the few generations of one object that exist at a time,
/// short enough for a name.
pub fn short(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    let first = u64::from_be_bytes(std::array::from_fn(|index| digest[index]));
    format!("{:010x}", first >> 24)
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
}
