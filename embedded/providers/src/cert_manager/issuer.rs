//! Looks after Issuers and ClusterIssuers, and signs as one.

use c5c3_api::blocks::Condition;
use c5c3_api::ext::Conditions;
use c5c3_api::ext::cert_manager::{ClusterIssuer, Issuer, IssuerSpec};
use c5c3_auth::{Asked, Issued, PkiError, Signer};
use c5c3_kit::condition::{ConditionState, find};
use jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::{Client, ResourceExt};

use super::{HOME, MANAGER};
use crate::failure::Error;
use crate::objects;
use crate::queue::Kind;

/// An Issuer or a ClusterIssuer.
pub(super) trait Signs: Kind {
    fn spec(&self) -> &IssuerSpec;
    fn status(&self) -> Option<&Conditions>;
    /// Where its Secrets are.
    fn home(&self) -> String;
}

impl Signs for Issuer {
    fn spec(&self) -> &IssuerSpec {
        &self.spec
    }
    fn status(&self) -> Option<&Conditions> {
        self.status.as_ref()
    }
    fn home(&self) -> String {
        self.namespace().unwrap_or_default()
    }
}

impl Signs for ClusterIssuer {
    fn spec(&self) -> &IssuerSpec {
        &self.spec.issuer
    }
    fn status(&self) -> Option<&Conditions> {
        self.status.as_ref()
    }
    fn home(&self) -> String {
        HOME.to_owned()
    }
}

/// Who signs.
pub(super) enum Authority {
    /// Each certificate for itself.
    Itself,
    /// An authority: its certificate, what stands above it, and its key.
    Ca { chain: String, key: Signer },
}

/// What comes of signing: the certificate with what a server must show beside it, and what clients must trust.
pub(super) struct Signed {
    pub(super) chain: String,
    pub(super) authority: String,
}

impl Authority {
    /// Signs a certificate of a key.
    pub(super) fn sign(&self, key: &Signer, asked: &Asked) -> Result<Signed, PkiError> {
        match self {
            Self::Itself => {
                let own = key.sign_own(asked)?;
                Ok(Signed { authority: own.clone(), chain: own })
            }
            Self::Ca { chain, key: signer } => {
                let certificate = signer.sign(chain, key, asked)?;
                // Clients have a root themselves; what lies between they must be shown.
                let shown = if Issued::read(chain)?.is_root() { "" } else { chain };
                Ok(Signed { chain: format!("{certificate}{shown}"), authority: last(chain).to_owned() })
            }
        }
    }
}

/// The last certificate of a text: the one nearest to the root.
fn last(chain: &str) -> &str {
    let begin = "-----BEGIN CERTIFICATE-----";
    chain.rfind(begin).map_or(chain, |at| &chain[at..])
}

/// Brings an issuer's status to how it stands.
pub(super) async fn reconcile<I: Signs>(issuer: I, client: Client) -> Result<Action, Error> {
    if issuer.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let authority = authority(&client, &issuer).await?;
    let said = match &authority {
        Ok(Authority::Itself) => ConditionState::met("Ready", "IsReady", ""),
        Ok(Authority::Ca { .. }) => ConditionState::met("Ready", "KeyPairVerified", "Signing CA verified"),
        Err(said) => said.clone(),
    };
    let before: &[Condition] = issuer.status().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let ready = said.to_condition(find(before, "Ready"), issuer.meta().generation, Timestamp::now());
    let status = Conditions { conditions: vec![ready] };
    objects::report(&client, &issuer, MANAGER, issuer.status(), &status).await?;
    Ok(Action::await_change())
}

/// Who signs for an issuer, or why no one can.
pub(super) async fn authority<I: Signs>(
    client: &Client,
    issuer: &I,
) -> Result<Result<Authority, ConditionState>, Error> {
    let no = |reason: &str, message: String| Ok(Err(ConditionState::unmet("Ready", reason, message)));
    let spec = issuer.spec();
    let ca = match (&spec.self_signed, &spec.ca) {
        (Some(_), None) => return Ok(Ok(Authority::Itself)),
        (None, Some(ca)) => ca,
        _ => {
            return no(
                "NotProvided",
                "spec: the embedded cluster has issuers with exactly one of selfSigned and ca".into(),
            );
        }
    };
    let (home, name) = (issuer.home(), &ca.secret_name);
    let Some(secret) = objects::secret(client, &home, name).await? else {
        return no("ErrGetKeyPair", format!("Error getting keypair for CA issuer: secret \"{home}/{name}\" not found"));
    };
    let (Some(chain), Some(key)) = (secret.get("tls.crt"), secret.get("tls.key")) else {
        return no("ErrGetKeyPair", format!("spec.ca.secretName: {home}/{name} lacks tls.crt or tls.key"));
    };
    let usable = Signer::from_pem(key).and_then(|key| {
        let certificate = Issued::read(chain)?;
        match (certificate.is_authority(), certificate.belongs_to(&key)) {
            (true, true) => Ok(key),
            (false, _) => Err(PkiError::NoAuthority("tls.crt is not the certificate of an authority (isCA)")),
            (_, false) => Err(PkiError::NoAuthority("tls.crt is not the certificate of tls.key")),
        }
    });
    match usable {
        Ok(key) => Ok(Ok(Authority::Ca { chain: chain.clone(), key })),
        Err(error) => no("ErrInvalidKeyPair", format!("spec.ca.secretName: {home}/{name}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_auth::Usage;

    fn asked(name: &str, authority: bool) -> Asked {
        Asked {
            common_name: name.to_owned(),
            authority,
            usages: vec![Usage::DigitalSignature],
            from: "2026-01-01T00:00:00Z".parse().unwrap(),
            until: "2027-01-01T00:00:00Z".parse().unwrap(),
            ..Asked::default()
        }
    }

    #[test]
    fn a_server_shows_what_lies_between_it_and_the_root_and_clients_trust_the_root() {
        let (root, between, leaf) =
            (Signer::generate().unwrap(), Signer::generate().unwrap(), Signer::generate().unwrap());
        let signed = Authority::Itself.sign(&root, &asked("root", true)).unwrap();
        assert_eq!(signed.chain, signed.authority);
        let root_pem = signed.chain;
        let by_root = Authority::Ca { chain: root_pem.clone(), key: root };
        let second = by_root.sign(&between, &asked("between", true)).unwrap();
        assert_eq!(second.chain.matches("BEGIN").count(), 1, "a root is not shown");
        let chain = format!("{}{root_pem}", second.chain);
        let third = Authority::Ca { chain, key: between }.sign(&leaf, &asked("leaf", false)).unwrap();
        assert_eq!(third.chain.matches("BEGIN").count(), 3);
        assert_eq!(third.authority, root_pem);
    }
}
