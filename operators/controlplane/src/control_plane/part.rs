//! What a part of a ControlPlane is: a value that says everything about it, with the functions that make its objects.
//! The parts themselves are in [`super::parts`].

use std::fmt;

use c5c3_api::Problem;
use c5c3_api::blocks::{DependencyKind, NamespacedRef};
use c5c3_api::c5c3::{ControlPlane, ControlPlaneSpec, Infrastructure, Services, Template};
use c5c3_kit::retention::Retained;
use c5c3_kit::{Inputs, KindRef, Step};
use kube::api::DynamicObject;
use serde_json::Value;

use super::accounts::Account;
use super::cloud::Cloud;
use super::spec::Spec;

pub(crate) const INFRASTRUCTURE: &str = "InfrastructureReady";
pub(crate) const KEYSTONE: &str = "KeystoneReady";
pub(crate) const KORC: &str = "KORCReady";
pub(crate) const CREDENTIALS: &str = "CredentialsReady";
pub(crate) const SERVICES: &str = "ServicesReady";

/// A part of a ControlPlane: a server of the infrastructure, a service, or what services are known by in Keystone.
pub struct Part {
    /// Its name, which is that of its object too, if it has one object.
    pub name: &'static str,
    /// The condition that it is a part of.
    pub condition: &'static str,
    /// The parts that it uses, and how.
    pub needs: &'static [Need],
    /// The field of a ControlPlane that asks for it.
    pub field: &'static str,
    /// Whether this version, or another project's operator, acts on its object.
    pub operated: bool,
    /// Whether data is lost with it, so that it cannot be taken out while the ControlPlane's data is to be deleted.
    pub(crate) holds_data: bool,
    /// The Secrets that it signs in with.
    pub(crate) accounts: &'static [Account],
    /// Whether a ControlPlane asks for it.
    pub(crate) asked: fn(&ControlPlaneSpec) -> Asked,
    /// How its objects are made.
    pub(crate) makes: Makes,
    /// Which of its objects decide whether data stays, given the namespace and whether it is to stay.
    pub(crate) retention: fn(&Part, &str, bool) -> Vec<Retained>,
    /// What its object cannot become, where it exists.
    pub(crate) immutable: fn(&Part, &DynamicObject, &Cloud) -> Vec<Problem>,
}

/// That a part uses another.
#[derive(Clone, Copy)]
pub enum Need {
    /// It starts when the other is ready.
    Ready(&'static Part),
    /// It starts when the other is ready, if the ControlPlane asks for what needs it.
    When(&'static Part, fn(&ControlPlaneSpec) -> bool),
    /// It uses the other if there is one, and starts without it.
    Soft(&'static Part),
}

/// Whether a ControlPlane asks for a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// It does if a part that it asks for needs it.
    IfNeeded,
}

/// How the objects of a part are made.
pub(crate) enum Makes {
    /// Servers, and what belongs to them.
    Servers {
        /// The kind of the object that says whether they are ready.
        kind: fn() -> KindRef,
        /// The object that is used in the place of a new one.
        existing: fn(&Infrastructure) -> Option<&NamespacedRef>,
        /// Adds the objects.
        step: fn(Step, &Cloud, &Inputs<ControlPlane>) -> Step,
    },
    /// One object, which the service's operator acts on.
    Service {
        /// Its kind.
        kind: fn() -> KindRef,
        /// Writes what the ControlPlane decides into its spec.
        project: fn(&Part, &mut Spec, &Cloud),
        /// What a user adds to that.
        template: fn(&Services) -> Option<&Template>,
    },
    /// Objects of K-ORC or of Rook, of which none stands for all.
    Identity {
        /// Adds the objects.
        step: fn(&'static Part, Step, &Cloud, &Inputs<ControlPlane>) -> Step,
        /// What is not there yet.
        missing: fn(&Part, &Cloud, &Inputs<ControlPlane>) -> Option<String>,
    },
}

impl From<bool> for Asked {
    fn from(asked: bool) -> Self {
        if asked { Self::Yes } else { Self::No }
    }
}

impl Need {
    /// The other part.
    pub fn part(&self) -> &'static Part {
        match self {
            Self::Ready(part) | Self::When(part, _) | Self::Soft(part) => part,
        }
    }

    /// Whether the part must be ready first.
    pub(crate) fn is_hard(&self, spec: &ControlPlaneSpec) -> bool {
        match self {
            Self::Ready(_) => true,
            Self::When(_, is_asked) => is_asked(spec),
            Self::Soft(_) => false,
        }
    }
}

impl Part {
    /// The kind of its object; none of a part without one.
    pub(crate) fn kind(&self) -> Option<KindRef> {
        match self.makes {
            Makes::Servers { kind, .. } | Makes::Service { kind, .. } => Some(kind()),
            Makes::Identity { .. } => None,
        }
    }

    /// Its object as something that a service depends on. What is no object of a kind that can be named there is none, such
    /// as Memcached, without which services go on for a while.
    pub(crate) fn dependency(&self) -> Option<DependencyKind> {
        serde_json::from_value(Value::from(self.kind()?.resource.kind)).ok()
    }

    /// Whether the spec of its object has a field, given as names from the outside in. The blocks that OpenStack services
    /// share are not all in the kinds of Cortex and Tempest.
    pub(crate) fn takes(&self, field: &[&str]) -> bool {
        let Some(KindRef { resource, .. }) = self.kind() else { return false };
        let path: Vec<&str> = [&["spec"], field].concat();
        c5c3_api::find(&resource.api_version, &resource.kind).is_some_and(|kind| kind.schema().has_field(&path))
    }

    /// How many parts are below it, one on top of the other.
    pub(crate) fn depth(&self) -> usize {
        self.needs.iter().map(|need| need.part().depth() + 1).max().unwrap_or_default()
    }
}

/// Parts are told apart by their names.
impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(part) => f.write_str(part.name),
            Self::When(part, _) => write!(f, "{}?", part.name),
            Self::Soft(part) => write!(f, "({})", part.name),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needs: Vec<String> = self.needs.iter().map(ToString::to_string).collect();
        write!(f, "{:<31} {:<20} {}", self.name, self.condition, needs.join(" "))
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Part").field(&self.name).finish()
    }
}
