//! Plans of objects, and of the objects that they make in turn.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use c5c3_kit::preview::{Assumed, FieldChange, Preview, differing};
use c5c3_kit::{Operator, Ref};
use kube::Client;
use kube::api::DynamicObject;

use super::given::Given;
use crate::operator;

/// How deep objects make objects: a ControlPlane, its services, and what those make.
const DEEPEST: usize = 4;

/// K-ORC's objects become something in Keystone and nothing in the cluster: to follow them is to ask Keystone, which often
/// cannot be reached from where a person sits.
const IN_KEYSTONE: &str = "openstack.k-orc.cloud";

/// An object, and what it leads to.
pub(super) struct Planned {
    pub(super) object: Ref,
    /// Whether it is there.
    pub(super) exists: bool,
    /// What of the object itself changes; for those of the files.
    pub(super) fields: Vec<FieldChange>,
    /// What its operator makes of it; none of an object that no operator looks after.
    pub(super) preview: Option<Preview>,
    /// What its children lead to, by their names.
    pub(super) below: BTreeMap<String, Planned>,
}

/// Operators to ask, and the cluster that they are asked about.
pub(super) struct Follow {
    client: Client,
    operators: Vec<Operator>,
}

type Following<'a> = Pin<Box<dyn Future<Output = Result<Planned, String>> + 'a>>;

impl Follow {
    pub(super) fn new(given: &Given) -> Self {
        // Whether an operator may reach into other namespaces is said where it is started.
        Self { client: given.client.clone(), operators: operator::all(true) }
    }

    /// What all objects that were given lead to. Each is planned with the others as they would be.
    pub(super) async fn all(&self, given: &Given) -> Result<Vec<Planned>, String> {
        let mut assumed = Assumed::default();
        for object in &given.objects {
            assumed.insert(object.reference.clone(), object.after.clone());
        }
        let mut plans = Vec::new();
        for object in &given.objects {
            let fields = object.before.as_ref().map(|before| differing(&object.reference, before, &object.after));
            let found = self.follow(&mut assumed, object.reference.clone(), object.after.clone(), 0).await?;
            let preview = found.preview.filter(|_| object.is_ours);
            let exists = object.before.is_some();
            plans.push(Planned { exists, fields: fields.unwrap_or_default(), preview, ..found });
        }
        Ok(plans)
    }

    fn follow<'a>(
        &'a self,
        assumed: &'a mut Assumed,
        object: Ref,
        would_be: DynamicObject,
        depth: usize,
    ) -> Following<'a> {
        Box::pin(async move {
            let preview = self.ask(&object, &would_be, assumed).await?;
            let changes: Vec<_> =
                preview.iter().flat_map(|preview| &preview.steps).flat_map(|step| &step.children).collect();
            let changes: Vec<_> = changes.into_iter().filter(|child| child.is_change()).cloned().collect();
            for change in &changes {
                assumed.insert(change.object.clone(), change.after.clone());
            }
            let mut below = BTreeMap::new();
            for change in changes {
                let resource = &change.object.resource;
                let is_looked_after = |operator: &Operator| {
                    operator
                        .kinds()
                        .iter()
                        .any(|(version, kind)| *version == resource.api_version && *kind == resource.kind)
                };
                if depth < DEEPEST && resource.group != IN_KEYSTONE && self.operators.iter().any(is_looked_after) {
                    let exists = change.before.is_some();
                    let found = self.follow(assumed, change.object.clone(), change.after, depth + 1).await?;
                    below.insert(change.object.to_string(), Planned { exists, ..found });
                }
            }
            Ok(Planned { object, exists: false, fields: Vec::new(), preview, below })
        })
    }

    /// What the operator of an object makes of it; none if there is none.
    async fn ask(&self, object: &Ref, would_be: &DynamicObject, assumed: &Assumed) -> Result<Option<Preview>, String> {
        for operator in &self.operators {
            if let Some(asked) = operator.preview(&self.client, would_be, assumed).await {
                let said = |error: c5c3_kit::Error| {
                    format!(
                        "cannot plan {object}: {error}; c5c3 plan needs the rights that its operator has: c5c3 manifests"
                    )
                };
                return asked.map(Some).map_err(said);
            }
        }
        Ok(None)
    }
}
