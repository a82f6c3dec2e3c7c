//! Passwords that no one has chosen.

use rand::RngExt;
use rand::distr::Alphanumeric;
use sha2::{Digest, Sha512};

/// Long enough that no one guesses it: 32 letters and digits, which need no quoting in any configuration file or URL.
const LENGTH: usize = 32;

const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The password for a purpose that belongs to another secret: it is the same for as long as that one is.
pub(crate) fn derived(secret: &str, purpose: &str) -> String {
    let mut hash = Sha512::new().chain_update(secret).chain_update([0u8]).chain_update(purpose);
    let mut password = String::new();
    while password.len() < LENGTH {
        let bytes = hash.clone().finalize();
        // Of each byte, only what every letter and digit is as likely for.
        let usable = bytes.iter().filter(|byte| **byte < 248).map(|byte| ALPHABET[usize::from(*byte) % ALPHABET.len()]);
        password.extend(usable.map(char::from).take(LENGTH - password.len()));
        hash.update(bytes);
    }
    password
}

/// A new password.
pub(crate) fn password() -> String {
    rand::rng().sample_iter(Alphanumeric).take(LENGTH).map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_passwords_are_the_same_and_none_needs_quoting() {
        let (one, other) = (password(), password());
        assert_ne!(one, other);
        assert!(one.len() == LENGTH && one.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }

    #[test]
    fn a_derived_password_is_the_same_for_the_same_secret_and_purpose_only() {
        let one = derived("cookie", "user");
        assert!(one.len() == LENGTH && one.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{one}");
        assert_eq!(one, derived("cookie", "user"));
        assert!(one != derived("cookie", "password") && one != derived("biscuit", "user"));
    }
}
