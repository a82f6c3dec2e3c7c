//! Keys of cephx: how they are made, and the keyrings that hold them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rand::RngExt;

/// A new key, as `ceph-authtool --gen-key` makes it: the cipher (1, AES), when it was made, the length, 16 random bytes.
pub(super) fn new_key(now: Timestamp) -> String {
    let secret: [u8; 16] = rand::rng().random();
    let seconds = u32::try_from(now.as_second()).unwrap_or(0);
    let nanoseconds = u32::try_from(now.subsec_nanosecond()).unwrap_or(0);
    let mut bytes = Vec::with_capacity(28);
    bytes.extend(1_u16.to_le_bytes());
    bytes.extend(seconds.to_le_bytes());
    bytes.extend(nanoseconds.to_le_bytes());
    bytes.extend(16_u16.to_le_bytes());
    bytes.extend(secret);
    STANDARD.encode(bytes)
}

/// One user's part of a keyring.
pub(super) fn keyring(user: &str, key: &str, caps: &[(&str, &str)]) -> String {
    let caps = caps.iter().map(|(daemon, cap)| format!("\tcaps {daemon} = \"{cap}\"\n"));
    format!("[{user}]\n\tkey = {key}\n{}", caps.collect::<String>())
}

/// What the administrator may do.
pub(super) const ADMIN: &[(&str, &str)] =
    &[("mds", "allow *"), ("mon", "allow *"), ("osd", "allow *"), ("mgr", "allow *")];

/// What monitors may do among themselves.
pub(super) const MON: &[(&str, &str)] = &[("mon", "allow *")];

/// What a manager may do.
pub(super) const MGR: &[(&str, &str)] = &[("mon", "allow profile mgr"), ("osd", "allow *"), ("mds", "allow *")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_form_that_ceph_reads_and_is_new_each_time() {
        let (one, other) = (new_key(Timestamp::UNIX_EPOCH), new_key(Timestamp::UNIX_EPOCH));
        assert_ne!(one, other);
        let bytes = STANDARD.decode(&one).unwrap();
        assert_eq!((bytes.len(), &bytes[..12]), (28, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0][..]));
    }

    #[test]
    fn a_keyring_names_the_user_the_key_and_the_caps() {
        let text = keyring("client.potter", "a2V5", &[("mon", "profile rbd")]);
        assert_eq!(text, "[client.potter]\n\tkey = a2V5\n\tcaps mon = \"profile rbd\"\n");
    }
}
