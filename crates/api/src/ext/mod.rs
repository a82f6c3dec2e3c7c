//! Typed slices of the kinds of other projects: the fields that we write or read, and no others.
//!
//! A slice is for server-side apply and for reading, never for PUT: what it does not know it would erase. An apply
//! owns what it sends, so whatever is absent here is not sent. The kinds' CRDs are installed by their own projects;
//! a test holds each slice against them, so that nothing we write is pruned or refused.
//!
//! Reading never fails on what a newer release might add: unknown fields are skipped, unknown words read as `Unknown`.
//! [`Readiness`] says whether an object can be used, in the words of the operator that owns it.

/// Words that a foreign API enumerates. A word that only a newer release knows reads as `Unknown`, so that one object
/// cannot stall a watch; `Unknown` cannot be written.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$word_about:meta])* $word:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$word_about])* #[serde(rename = $text)] $word,)+
            /// A word that this version does not know.
            #[serde(other, skip_serializing)]
            Unknown,
        }

        impl $name {
            /// Every word that can be written.
            pub const ALL: &'static [Self] = &[$(Self::$word),+];
        }
    };
}

/// Kinds that are ready when their condition `Ready` is true.
macro_rules! ready_by_condition {
    ($operator:expr; $($kind:ty),+) => {
        $(impl $crate::ext::Readiness for $kind {
            fn readiness(&self) -> $crate::ext::Ready {
                $crate::ext::readiness::Judge::judge($operator, &self.metadata, self.status.as_ref(), |judge, status| {
                    judge.holds(&status.conditions, "Ready")
                })
            }
        })+
    };
}

mod any;
pub mod cert_manager;
pub mod external_secrets;
pub mod gateway;
pub mod mariadb;
pub mod rabbitmq;
mod readiness;
mod reference;
pub mod rook;
pub mod valkey;

pub use any::readiness;
pub use readiness::{Readiness, Ready};
pub use reference::{Conditions, IssuerRef, NamedRef, SecretKey, Toggle};
