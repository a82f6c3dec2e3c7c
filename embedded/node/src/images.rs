//! The image of a container: there already, or pulled with the pod's credentials.

mod credentials;
mod name;

use std::time::Duration;

use c5c3_cri::{CallError, Runtime, v1};
use k8s_openapi::api::core::v1::Container;

pub(crate) use credentials::{Credentials, credentials};
pub(crate) use name::is_valid;

/// When an image is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    pub(crate) fn of(container: &Container) -> Self {
        match container.image_pull_policy.as_deref() {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            // The API has set one by the image's tag.
            _ => Self::IfNotPresent,
        }
    }
}

/// What there is to do about an image.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    Pull,
    /// It is not there and may not be fetched.
    Impossible,
}

pub(crate) fn need(policy: PullPolicy, is_there: bool) -> Need {
    match (policy, is_there) {
        (PullPolicy::Always, _) | (PullPolicy::IfNotPresent, false) => Need::Pull,
        (_, true) => Need::Nothing,
        (PullPolicy::Never, false) => Need::Impossible,
    }
}

/// Fetches an image with the first credentials that work, without any at the end.
pub(crate) async fn pull(
    runtime: &Runtime,
    image: &str,
    sandbox: &v1::PodSandboxConfig,
    credentials: &Credentials,
) -> Result<String, CallError> {
    let mut failed = None;
    for auth in credentials.of(image).into_iter().map(Some).chain([None]) {
        match runtime.pull_image(image, auth, Some(sandbox.clone())).await {
            Ok(pulled) => return Ok(pulled),
            // The first failure is that of the credentials that were meant.
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    Err(failed.expect("there is at least the try without credentials"))
}

/// A duration as an event has it: `1.234s`, `87ms`.
pub(crate) fn short(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis < 1000 { format!("{millis}ms") } else { format!("{}.{:03}s", millis / 1000, millis % 1000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_about_an_image() {
        let policies = [PullPolicy::Always, PullPolicy::IfNotPresent, PullPolicy::Never];
        assert_eq!(policies.map(|policy| need(policy, true)), [Need::Pull, Need::Nothing, Need::Nothing]);
        assert_eq!(policies.map(|policy| need(policy, false)), [Need::Pull, Need::Pull, Need::Impossible]);
    }

    #[test]
    fn times_are_short() {
        assert_eq!(short(Duration::from_millis(87)), "87ms");
        assert_eq!(short(Duration::from_millis(2034)), "2.034s");
    }
}
