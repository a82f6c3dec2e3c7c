//! A cloud with a credential for it, which is compared without comparing secrets.

use std::hash::{Hash, Hasher};

use crate::cloud::{Cloud, Credential};
use crate::clouds::{self, CloudError};

/// A cloud and a credential for it. Two are equal if they have the same digest.
#[derive(Clone, Debug)]
pub struct Access {
    cloud: Cloud,
    credential: Credential,
    digest: [u8; 32],
}

impl Access {
    /// With this credential.
    pub fn new(cloud: Cloud, credential: Credential) -> Self {
        let digest = credential.digest(&cloud);
        Self { cloud, credential, digest }
    }

    /// The cloud of this name in a clouds.yaml, as [`clouds::parse`] reads it.
    pub fn parse(text: &str, name: &str, ca: Option<&str>) -> Result<Self, CloudError> {
        let (cloud, credential) = clouds::parse(text, name, ca)?;
        Ok(Self::new(cloud, credential))
    }

    /// The cloud.
    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// The credential.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// A digest of both, which may be kept for longer than the secret.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }
}

impl PartialEq for Access {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Access {}

impl Hash for Access {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn access(secret: &str) -> Access {
        let credential = Credential::Application { id: "a1".into(), secret: secret.into() };
        Access::new(Cloud::new("http://keystone:5000"), credential)
    }

    #[test]
    fn equal_secrets_make_equal_accesses() {
        assert_eq!(access("plum"), access("plum"));
        assert_ne!(access("plum"), access("cherry"));
        assert_eq!(HashSet::from([access("plum"), access("plum"), access("cherry")]).len(), 2);
    }
}
