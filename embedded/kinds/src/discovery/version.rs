//! Which of a group's versions comes first.

use std::cmp::Reverse;

/// Orders versions as Kubernetes does: the greater, the more preferred. `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`,
/// then what does not look like a version, by the alphabet.
pub(super) fn priority(version: &str) -> (u8, u64, u64, Reverse<&str>) {
    parse(version).map_or((0, 0, 0, Reverse(version)), |(stage, major, minor)| (stage, major, minor, Reverse("")))
}

fn parse(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..digits].parse().ok()?;
    let rest = &rest[digits..];
    if rest.is_empty() {
        return Some((3, major, 0));
    }
    let (stage, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(minor), _) => (2, minor),
        (_, Some(minor)) => (1, minor),
        _ => return None,
    };
    Some((stage, major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_availability_beats_beta_beats_alpha_beats_the_rest() {
        let mut versions =
            ["foo1", "v1alpha1", "v10", "v1beta1", "v2", "v11alpha2", "foo10", "v1", "v3beta1", "v12alpha1"];
        versions.sort_by_key(|version| Reverse(priority(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v3beta1", "v1beta1", "v12alpha1", "v11alpha2", "v1alpha1", "foo1", "foo10"]
        );
    }
}
