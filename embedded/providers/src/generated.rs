//! Passwords that nobody has chosen.

use rand::RngExt;
use rand::distr::Alphanumeric;

/// Long enough that nobody guesses it: 32 letters and digits, which need no quoting in any configuration file or URL.
const LENGTH: usize = 32;

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
}
