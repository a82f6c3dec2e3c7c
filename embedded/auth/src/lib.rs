//! Who may do what in the embedded Kubernetes API. Pure: nothing here listens, and only [`Pki::open`] and
//! [`write_kubeconfig`] touch the disk.
//!
//! | step | here |
//! |---|---|
//! | the server proves itself | [`Pki`]: authority, server certificate, [`Pki::tls`] |
//! | a client proves itself | [`certificate_user`], [`Authenticator`] for bearer tokens, [`UserInfo::anonymous`] |
//! | a client acts as another | [`Impersonation`] |
//! | may it do this? | [`rbac::Policy::authorize`], refused with [`rbac::Attributes::forbidden`] |
//! | may it grant this? | [`rbac::check_role`], [`rbac::check_binding`] |
//! | it asks instead of trying | [`review`] |
//!
//! Every function that depends on the time takes it as an argument. Secrets are types without `Debug` output.
//!
//! # What differs from a real cluster
//!
//! - Keys and tokens are ECDSA P-256 only (`ES256`); there is one signing key and no rotation of it.
//! - A client certificate of another authority ends the TLS handshake; a real server answers 401.
//! - The server's certificate is renewed with four months in hand, at start and while running ([`Pki::renew`]). The
//!   authority is prolonged at start only, with more than three years in hand.
//! - There are no legacy tokens in Secrets of type `kubernetes.io/service-account-token`, and no Node authorizer: see
//!   [`rbac::bootstrap`].
//! - A rule of more than 100,000 single permissions counts as not held unless one held rule covers it whole.

mod authenticator;
mod impersonation;
mod kubeconfig;
mod pki;
pub mod rbac;
mod refusal;
pub mod review;
mod token;
mod trust;
mod user;
mod wording;

pub use authenticator::{Authenticated, Authenticator, generate_token};
pub use impersonation::Impersonation;
pub use kubeconfig::{Credential, KubeconfigError, kubeconfig, write_kubeconfig};
pub use pki::{
    Asked, Identity, Issued, KeyKind, Pki, PkiError, Request, SERVER_LIFE, SERVER_NAMES, Signer, Usage,
    certificate_user,
};
pub use refusal::{Cause, Refusal};
pub use token::{
    Binding, Claims, Found, ISSUER, Kind, Lookup, MAX_TOKEN_BYTES, Reference, ServiceAccountTokens, TokenError,
};
pub use trust::trusting_anybody;
pub use user::{
    ANONYMOUS, AUTHENTICATED, MASTERS, SERVICE_ACCOUNTS, UNAUTHENTICATED, UserInfo, service_account_user,
    split_service_account,
};
