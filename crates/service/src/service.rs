//! What an operator says of its service. Everything is data; [`ServiceController`](crate::ServiceController) makes the controller of it.

use c5c3_api::Problem;
use c5c3_api::openstack::ServiceObject;
use c5c3_kit::ini::{Ini, IniError};
use c5c3_kit::retention::Retained;
use c5c3_kit::{Inputs, KindRef, Ref, Step, StepName, Wait};
use secrecy::SecretString;
use serde_json::Value;
use std::time::Duration;

use crate::backing_services::BackingServices;
use crate::cache::Servers;
use crate::component::Component;
use crate::config::Owned;
use crate::coordination::Coordinator;
use crate::database::Server;
use crate::identity::Identity;
use crate::instance::Instance;
use crate::messaging::Bus;
use crate::migrations::Migrations;
use crate::network::Egress;
use crate::rbd::Pool;
use crate::service_plan::ServicePlan;

/// A file beside the main one: its name, and whether a section is in it.
pub type SecondFile = (&'static str, fn(&str) -> bool);

/// An OpenStack service.
pub trait Service: Send + Sync + Sized + 'static {
    /// Its kind.
    type Kind: ServiceObject;

    /// Its name: of its image, of the folder of its programs (`/opt/<name>`), of its schema.
    const NAME: &'static str;
    /// The operator's name: its field manager, and the value of the ownership label. It must never change.
    const MANAGER: &'static str;
    /// The conditions that are written beside `Ready`, in the order of the steps.
    const CONDITIONS: &'static [&'static str];
    /// The condition that says whether the API answers.
    const HEALTH: &'static str = "APIReady";
    /// Held on each object while it has children that decide about data.
    const FINALIZER: &'static str;
    /// The main configuration file.
    const CONF: &'static str;
    /// The folder that configuration is mounted at.
    const FOLDER: &'static str;
    /// The path of the API's version in its URLs, such as `/v3`; empty for a service without one.
    const VERSION: &'static str = "";

    /// A program in Python that API pods run when they are asked for it, with `health.json` as its argument: what it prints is an
    /// input ([`ServicePlan::report`]). It is for what the service alone knows, such as the room on its backends.
    const REPORT: Option<&'static str> = None;

    /// The file of sections that are not in the main one.
    const SECOND_CONF: Option<SecondFile> = None;

    /// Whether the database stays whatever `spec.deletionPolicy` says.
    const DATABASE_STAYS: bool = false;

    /// What the service consists of. Reads nothing.
    fn describe(object: &Self::Kind, instance: &Instance) -> Description;

    /// Writes the main configuration file. Logs, policies, proxies and what users add are written by the layer.
    fn configure(object: &Self::Kind, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError>;

    /// Files beside the main one.
    fn files(_: &Self::Kind, _: &BackingServices) -> Vec<(&'static str, SecretString)> {
        Vec::new()
    }

    /// Files beside the main one whose names follow from the object, such as one for each cell. Commands of migrations find them, too.
    fn named_files(_: &Self::Kind, _: &BackingServices) -> Vec<(String, SecretString)> {
        Vec::new()
    }

    /// What is wrong with an object beyond what the layer finds.
    fn problems(_: &Self::Kind) -> Vec<Problem> {
        Vec::new()
    }

    /// Kinds of children beyond those of the layer.
    fn children() -> Vec<KindRef> {
        Vec::new()
    }

    /// Kinds that [`Service::needs`] may name beyond those of the layer.
    fn reads() -> Vec<KindRef> {
        Vec::new()
    }

    /// What has to be read beyond what the layer reads.
    fn needs(_: &Inputs<Self::Kind>) -> Vec<Ref> {
        Vec::new()
    }

    /// Looks up what the configuration needs beyond what the layer finds, such as the addresses of an OVN, among what
    /// [`Service::needs`] names; or the waits for it.
    fn look_up(_: &Inputs<Self::Kind>) -> Result<LookedUp, Vec<Wait>> {
        Ok(LookedUp::default())
    }

    /// Steps of its own: Keystone's keys, Nova's cells.
    fn steps(_: &ServicePlan<'_, Self>) -> OwnSteps {
        OwnSteps::default()
    }

    /// Steps of its own that go on while the spec is wrong: the rotation of keys.
    fn maintenance(_: &ServicePlan<'_, Self>) -> OwnSteps {
        OwnSteps::default()
    }

    /// Children that decide whether data outlives the object, beyond those of the layer.
    fn retention(_: &Value, _: &Instance) -> Vec<Retained> {
        Vec::new()
    }
}

/// Steps of a service's own, and where they stand among the others. They may need any step that comes before them.
#[derive(Debug, Default)]
pub struct OwnSteps {
    /// Before the databases and the pods.
    pub before: Vec<Step>,
    /// Between the schemas and the pods, for what a migrated database is needed for. Pods wait for those that they name.
    pub between: Vec<Step>,
    /// After the pods.
    pub after: Vec<Step>,
    /// When to look again, though nothing changed.
    pub requeue_after: Option<Duration>,
    /// Steps that have left the plan on purpose: what they made is deleted now, and not when everything else is done.
    pub removed: Vec<StepName>,
    /// Fields of the status of its own.
    pub status: Vec<(&'static str, Value)>,
}

/// What a service has looked up by itself.
#[derive(Clone, Debug, Default)]
pub struct LookedUp {
    /// Values by name; [`BackingServices::looked_up`] has them.
    pub values: Vec<(&'static str, SecretString)>,
    /// What pods have to reach.
    pub egress: Vec<Egress>,
}

/// What a service consists of.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Its database servers with the schemas on them.
    pub databases: Vec<Server>,
    /// Its message brokers: one, or one for each cell.
    pub messaging: Vec<Bus>,
    /// How it authenticates to Keystone; not at all when absent.
    pub identity: Option<Identity>,
    /// Where it caches.
    pub cache: Option<Servers>,
    /// The Ceph pools that it stores data in.
    pub pools: Vec<Pool>,
    /// Where its pods agree on who does what; each pod for itself when absent.
    pub coordination: Option<Coordinator>,
    /// Other services that it calls, which its pods have to reach.
    pub calls: Vec<Egress>,
    /// Secrets that it needs beyond those.
    pub secrets: Vec<NeededSecret>,
    /// What runs, in the order in which an upgrade replaces it.
    pub components: Vec<Component>,
    /// How its schemas follow its version.
    pub migrations: Migrations,
    /// What the service catalog says of it.
    pub catalog: Option<CatalogEntry>,
    /// Options that users must not set.
    pub owned: &'static [Owned],
    /// Options that the operator has to know the value of, so that they may be in the spec and not in a Secret.
    pub only_in_spec: &'static [Owned],
    /// Loggers of its own that say too much, as `name=LEVEL`.
    pub quiet: &'static [&'static str],
}

/// A key of a Secret that a service needs.
#[derive(Clone, Debug)]
pub struct NeededSecret {
    /// The Secret.
    pub reference: Ref,
    /// Its key.
    pub key: String,
    /// Why it is needed.
    pub because: &'static str,
    /// The wait's reason.
    pub reason: &'static str,
}

/// What the service catalog says of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Its name: `placement`.
    pub name: &'static str,
    /// Its type: `placement`, `compute`.
    pub service_type: &'static str,
    /// What follows the address in its URL: `/v2.1`.
    pub path: &'static str,
}
