//! The one controller of all kinds: finds the resource of an object in Keystone, creates it, keeps it as the spec says, deletes it.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use c5c3_api::orc::{AVAILABLE, ManagementPolicy, PROGRESSING};
use c5c3_api::problem;
use c5c3_kit::condition::ConditionState;
use c5c3_kit::{
    Call, Controller, Farewell, Inputs, KindRef, Plan, Question, Ref, RemoteHandle, Step, Summary, Verdict, Wait,
};
use c5c3_openstack::Access;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value, json};

use crate::Settings;
use crate::conditions;
use crate::keystone::{APPLIED, Change, Collection, Keystone, Lookup, Which};
use crate::table::{Kind, Shape, kind_ref};
use crate::view::{View, terminal, waiting};

/// How soon a resource is looked for again that others are to create, unless the settings name another interval.
const IMPORT_INTERVAL: Duration = Duration::from_secs(15);

/// Finalizers of Kubernetes, which are removed after ours.
const OF_KUBERNETES: &[&str] = &["orphan", "foregroundDeletion"];

/// How often an object asks for its resource to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Resync(Option<Duration>);

/// The controller of a kind.
pub struct Actuator<K> {
    keystone: Arc<Keystone>,
    settings: Arc<Settings>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Actuator<K> {
    /// The controller of a kind whose resources are in these Keystones.
    pub fn new(keystone: Arc<Keystone>, settings: Arc<Settings>) -> Self {
        Self { keystone, settings, kind: PhantomData }
    }
}

/// Where the resource of an object is.
enum Located {
    /// This has to be asked first.
    Ask(Lookup),
    /// It cannot be said yet.
    Waiting(Vec<Wait>),
    /// Others are to create it.
    NotYet(Wait),
    /// It is there.
    Found(Place, Value),
    /// It is not there, and these are the ids that it refers to.
    Absent(Place, Map<String, Value>),
}

/// Where the resources of a kind are.
struct Place {
    access: Access,
    collection: Collection,
}

fn locate<K: Kind>(view: &View<'_, K>, inputs: &Inputs<K>) -> Located {
    let access = match view.access() {
        Ok(access) => access,
        Err(wait) => return Located::Waiting(vec![wait]),
    };
    let object = view.reference();
    let stuck = |reason, message: &str| Located::Waiting(vec![terminal(&object, reason, message)]);
    let managed = inputs.object.envelope().management_policy == ManagementPolicy::Managed;
    let ids = view.ids();
    let of_user = view.shape() == Shape::ApplicationCredential;
    // An import is resolved once, so that what its filter refers to may be deleted after that.
    let is_resolved = !managed && view.id().is_some();
    let collection = match &ids {
        Ok(ids) => view.collection(ids),
        // Such a collection belongs to an object that the spec refers to.
        Err(waits) if of_user && !is_resolved => return Located::Waiting(waits.clone()),
        Err(_) => view.collection(&Map::new()),
    };
    let find = |which: Which| {
        let lookup = Lookup { access: access.clone(), collection: collection.clone(), which };
        match inputs.reply::<Keystone>(&lookup) {
            None => Err(Located::Ask(lookup)),
            Some(Ok(found)) => Ok(found.clone()),
            Some(Err(_)) => Err(Located::Waiting(inputs.answered::<Keystone>(&lookup).err().into_iter().collect())),
        }
    };
    if let Some(id) = view.id().or(view.import_id()) {
        match find(Which::Id(id.to_owned())).map(|found| found.into_iter().next()) {
            Err(located) => return located,
            Ok(Some(resource)) => return Located::Found(Place { access, collection }, resource),
            Ok(None) if managed => {}
            // It was looked for among the credentials of the user that signs in. It may be another user's.
            Ok(None) if of_user && ids.is_err() => return Located::Waiting(ids.err().unwrap_or_default()),
            Ok(None) if view.id().is_some() => {
                return stuck("UnrecoverableError", "resource has been deleted from OpenStack");
            }
            Ok(None) => return stuck("UnrecoverableError", "referenced resource does not exist in OpenStack"),
        }
    }
    // What was found by the filter is looked for again, whatever else fits the filter by now.
    let recorded = view.recorded_grant().filter(|_| !managed);
    let ids = match (ids, &recorded) {
        (Ok(ids), _) => ids,
        (Err(_), Some(_)) => Map::new(),
        (Err(waits), None) => return Located::Waiting(waits),
    };
    let (conditions, during) = if let Some(recorded) = recorded {
        (recorded, "import")
    } else if view.has_import_filter() {
        (view.import_conditions(&ids), "import")
    } else if managed {
        (view.identity(&ids), "adoption")
    } else {
        return stuck("InvalidConfiguration", "Not creating unmanaged resource");
    };
    match find(Which::Where(conditions)) {
        Err(located) => located,
        Ok(found) => match <[Value; 1]>::try_from(found) {
            Ok([resource]) => Located::Found(Place { access, collection }, resource),
            Err(none) if none.is_empty() && managed => Located::Absent(Place { access, collection }, ids),
            Err(none) if none.is_empty() && view.shape() == Shape::Assignment && view.was_observed() => {
                stuck("UnrecoverableError", "role assignment has been deleted from OpenStack")
            }
            Err(none) if none.is_empty() => {
                Located::NotYet(waiting(&object, "Waiting for OpenStack resource to be created externally"))
            }
            Err(_) => stuck(
                "InvalidConfiguration",
                &format!("found more than one matching OpenStack resource during {during}"),
            ),
        },
    }
}

impl<K: Kind> Actuator<K> {
    fn view<'a>(&'a self, inputs: &'a Inputs<K>) -> View<'a, K> {
        View::new(inputs).trusting(self.settings.authority.as_deref())
    }

    /// Whether the resource goes with an object that is being deleted, and nothing else comes first.
    fn is_deleting(inputs: &Inputs<K>) -> bool {
        inputs.object.meta().deletion_timestamp.is_some()
    }

    fn foreign_finalizers(inputs: &Inputs<K>) -> Vec<String> {
        let all = inputs.object.meta().finalizers.iter().flatten();
        let foreign = |held: &&String| **held != K::TABLE.finalizer && !OF_KUBERNETES.contains(&held.as_str());
        all.filter(foreign).cloned().collect()
    }

    /// The steps of an object whose resource is there: nothing to create, and what differs is put back.
    fn keep(view: &View<'_, K>, inputs: &Inputs<K>, place: Place, live: &Value) -> (Plan, Step) {
        let id = live["id"].as_str().unwrap_or_default().to_owned();
        let mut observed = view.observed(live);
        let current = Step::new(PROGRESSING);
        let managed = inputs.object.envelope().management_policy == ManagementPolicy::Managed;
        let with_id = |observed: Map<String, Value>| {
            let plan = Plan::new().status("resource", observed);
            if view.shape() == Shape::Assignment { plan } else { plan.status("id", id.clone()) }
        };
        let (mut hidden, mut why) = (None, Vec::new());
        // The secret of an application credential is set once.
        let secret = view.secret_name().filter(|_| managed && view.shape() == Shape::Plain);
        if let Some(name) = secret {
            let is_recorded = view.applied_secret() == Some(name.as_str());
            match view.hidden() {
                Ok(Some(value)) => {
                    let is_applied = live[APPLIED].as_str().map_or(is_recorded, |digest| digest == value.digest());
                    if is_applied {
                        observed.insert("appliedPasswordRef".into(), name.into());
                    } else {
                        why.push(format!("{} is not the one of Secret/{name}", value.field));
                        hidden = Some(value);
                    }
                }
                // A Secret may be deleted once its password was set.
                Ok(None) | Err(_) if is_recorded => drop(observed.insert("appliedPasswordRef".into(), name.into())),
                Ok(None) => {}
                Err(wait) => return (with_id(observed), current.undecided([wait])),
            }
        }
        let mut fields = Map::new();
        for (field, is, should) in if managed { view.differences(live) } else { Vec::new() } {
            why.push(format!("{field} is {is} and should be {should}"));
            fields.insert(field.into(), should);
        }
        let plan = with_id(observed);
        if why.is_empty() {
            return (plan.status("lastSyncTime", json!(Time(inputs.now))), current.childless());
        }
        let Place { access, collection } = place;
        let change = Change::Update { access, collection, id, fields, hidden };
        (plan, current.call(Call::to::<Keystone>(change, why.join("; "))))
    }
}

impl<K: Kind> Controller for Actuator<K> {
    type Kind = K;
    type Valid = Resync;
    const NAME: &'static str = K::TABLE.controller;
    const CONDITIONS: &'static [&'static str] = &[];
    const SUMMARY: &'static [&'static str] = &[AVAILABLE, PROGRESSING];
    const FINALIZER: Option<&'static str> = Some(K::TABLE.finalizer);

    fn children(&self) -> Vec<KindRef> {
        Vec::new()
    }

    fn reads(&self) -> Vec<KindRef> {
        let mut kinds = vec![KindRef::of::<Secret>()];
        kinds.extend(K::TABLE.refs.iter().map(|field| kind_ref(field.kind)));
        if K::TABLE.shape == Shape::ApplicationCredential {
            kinds.extend([kind_ref("Role"), kind_ref("Service")]);
        }
        kinds
    }

    fn guarded(&self) -> Vec<KindRef> {
        self.reads()
    }

    fn guards(&self, object: &K) -> Vec<Ref> {
        View::of(object).guards()
    }

    fn needs(&self, inputs: &Inputs<K>) -> Vec<Ref> {
        View::new(inputs).needs()
    }

    fn remote(&self) -> Option<RemoteHandle> {
        Some(RemoteHandle::new(self.keystone.clone()))
    }

    fn questions(&self, inputs: &Inputs<K>) -> Vec<Question> {
        let goes_alone = !inputs.object.envelope().deletes() || !Self::foreign_finalizers(inputs).is_empty();
        if Self::is_deleting(inputs) && goes_alone {
            return Vec::new();
        }
        match locate(&self.view(inputs), inputs) {
            Located::Ask(lookup) => vec![Question::to::<Keystone>(lookup)],
            _ => Vec::new(),
        }
    }

    fn validate(&self, inputs: &Inputs<K>) -> Verdict<Resync> {
        match inputs.object.envelope().resync() {
            Ok(period) => Verdict::Valid(Resync(period)),
            Err(error) => {
                let fix = "use a duration such as 10m, or 0s for never";
                Verdict::Invalid(vec![problem("spec.resyncPeriod", error.to_string(), fix)].into())
            }
        }
    }

    fn plan(&self, Resync(period): &Resync, inputs: &Inputs<K>) -> Plan {
        let view = self.view(inputs);
        let (exists, current) = (Step::new(AVAILABLE), Step::new(PROGRESSING).childless());
        let as_before = |mut status: Map<String, Value>| {
            status.remove("lastSyncTime");
            Plan { status, ..Plan::new() }
        };
        let plan = match locate(&view, inputs) {
            Located::Ask(_) => as_before(view.status()).step(exists.undecided([])).step(current),
            Located::Waiting(waits) => as_before(view.status()).step(exists.undecided(waits)).step(current),
            Located::NotYet(wait) => {
                let plan = as_before(view.status()).step(exists.undecided([wait])).step(current);
                Plan { requeue_after: Some(self.settings.import_interval.unwrap_or(IMPORT_INTERVAL)), ..plan }
            }
            Located::Absent(Place { access, collection }, ids) => {
                let exists = match view.hidden() {
                    Err(wait) => exists.undecided([wait]),
                    Ok(hidden) => {
                        let fields = view.wanted(&ids);
                        let change = Change::Create { access, collection, fields, hidden };
                        let was_there = view.id().is_some() || view.was_observed();
                        let why = if was_there { "it was deleted from OpenStack" } else { "it does not exist" };
                        exists.call(Call::to::<Keystone>(change, why))
                    }
                };
                Plan::new().step(exists).step(current)
            }
            Located::Found(place, live) => {
                let (plan, current) = Self::keep(&view, inputs, place, &live);
                plan.step(exists.childless()).step(current)
            }
        };
        plan.resync(period.or(self.settings.resync))
    }

    fn farewell(&self, inputs: &Inputs<K>) -> Farewell {
        let view = self.view(inputs);
        let object = view.reference();
        let finalizers = Self::foreign_finalizers(inputs);
        if !finalizers.is_empty() {
            let wait = |held: String| waiting(&object, format!("Waiting for finalizer {held} to be removed"));
            return finalizers.into_iter().map(wait).fold(Farewell::new(), Farewell::wait);
        }
        if !inputs.object.envelope().deletes() {
            return Farewell::new();
        }
        let what = K::TABLE.singular;
        let leaves = match view.id() {
            Some(id) => format!("{what} {id}"),
            None => format!("a {what}, if one was created for {}", object.name),
        };
        let farewell = Farewell::new().leaves(leaves);
        match locate(&view, inputs) {
            Located::Found(Place { access, collection }, live) => {
                let id = live["id"].as_str().unwrap_or_default().to_owned();
                let change = Change::Delete { access, collection, id };
                farewell.call(Call::to::<Keystone>(change, "the object is deleted"))
            }
            // Without its dependencies nothing was created that has no id.
            Located::Waiting(_) if view.access().is_ok() && view.id().is_none() && view.ids().is_err() => {
                Farewell::new()
            }
            Located::Waiting(waits) => waits.into_iter().fold(farewell, Farewell::wait),
            Located::Absent(..) | Located::NotYet(_) | Located::Ask(_) => Farewell::new(),
        }
    }

    fn summary(&self, state: Summary<'_>) -> Vec<ConditionState> {
        conditions::summary(&state, K::TABLE.noun())
    }
}
