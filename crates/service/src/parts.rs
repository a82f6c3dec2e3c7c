//! A service's object as the parts that it is made of: which image, which components, which addresses. Nothing is decided here.

use std::net::{IpAddr, SocketAddr};

use c5c3_api::blocks::DeletionPolicy;
use c5c3_api::openstack::ServiceObject;
use c5c3_kit::{Inputs, Probe, Ref, readiness};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use kube::Resource as _;
use kube::api::DynamicObject;

use crate::api::Api;
use crate::component::{API, Component, Kind, Runs};
use crate::config::{self, Additions, Owned};
use crate::image::{self, Version};
use crate::instance::Instance;
use crate::pod::Shared;
use crate::release_options::ReleaseOptions;
use crate::service::{Description, Service};
use crate::upgrade::Progress;
use crate::wsgi::Wsgi;
use crate::{dependencies, extra_config, operations, policy, rbd, record, tls};

/// The URL that clients outside the cluster use, if the object names one or a Gateway routes to it.
pub(crate) fn published(object: &impl ServiceObject) -> Option<String> {
    let given = object.public_endpoint().map(ToString::to_string);
    let routed = object.exposure().gateway.as_ref();
    given.or_else(|| routed.map(|route| format!("https://{}{}", route.hostname, route.path)))
}

/// An object as its parts.
#[derive(Debug)]
pub struct Parts<'a, S: Service> {
    /// The object.
    pub object: &'a S::Kind,
    /// What its children are called.
    pub instance: Instance,
    /// What the service consists of.
    pub description: Description,
    /// The image of its pods.
    pub image: String,
    /// What all of its pods have in common.
    pub shared: Shared,
    /// The version of its schemas, and how far an upgrade is.
    pub recorded: Progress,
}

impl<'a, S: Service> Parts<'a, S> {
    /// The parts of the object of these inputs.
    pub fn new(inputs: &'a Inputs<S::Kind>) -> Self {
        let object = &inputs.object;
        let instance = Instance::new(S::NAME, object.meta());
        let status = object.status().map_or_else(Progress::default, |status| Progress {
            installed: status.installed_release.clone(),
            target: status.target_release.clone(),
            phase: status.upgrade_phase.clone(),
        });
        let recorded = record::read(inputs, &instance, status);
        let image = image::of(S::NAME, object.image(), recorded.installed.as_deref());
        let mut description = S::describe(object, &instance);
        for component in &mut description.components {
            if let Runs::Wsgi(wsgi) = &mut component.runs {
                configured::<S>(wsgi, object);
                // The certificate is for the name of the API.
                wsgi.tls &= component.name == API;
            }
        }
        let shared = operations::shared(S::NAME, &image, object.operations());
        Self { object, instance, description, image, shared, recorded }
    }

    /// What has to be read.
    pub(crate) fn needs(&self, inputs: &Inputs<S::Kind>) -> Vec<Ref> {
        let namespace = &self.instance.namespace;
        let Description { databases, messaging, identity, cache, pools, coordination, secrets, .. } = &self.description;
        let mut needs: Vec<Ref> = databases.iter().flat_map(|server| server.needs(inputs)).collect();
        needs.extend(messaging.iter().flat_map(|bus| bus.needs(inputs)));
        needs.extend(identity.iter().flat_map(|identity| identity.needs(inputs)));
        needs.extend(cache.iter().flat_map(crate::cache::Servers::needs));
        needs.extend(pools.iter().flat_map(|pool| pool.needs(inputs)));
        needs.extend(coordination.iter().map(crate::coordination::Coordinator::needs));
        needs.extend(secrets.iter().map(|secret| secret.reference.clone()));
        needs.extend(policy::reference(self.object.policy_overrides(), namespace));
        needs.extend(extra_config::needs(&self.object.operations().extra_config_from, namespace));
        needs.extend(self.object.depends_on().iter().flat_map(|one| dependencies::needs(one, namespace)));
        needs.push(record::reference(&self.instance));
        needs
    }

    /// The tag that is wanted; none for an image by digest.
    pub fn tag(&self) -> Option<String> {
        image::tag(S::NAME, self.object.image(), self.recorded.installed.as_deref())
    }

    /// The options and policies of the wanted release, if they are known.
    pub fn release_options(&self) -> Option<&'static ReleaseOptions> {
        let release = Version::of(&self.tag()?)?.release(S::NAME)?;
        ReleaseOptions::of(S::NAME, &release)
    }

    /// What users add to the configuration.
    pub fn additions(&self) -> Additions<'a> {
        Additions { plugins: self.object.plugins(), extra: self.object.extra_config() }
    }

    /// Options that users must not set.
    pub(crate) fn owned(&self) -> Vec<Owned> {
        [config::OWNED, self.description.owned].concat()
    }

    /// Whether the database outlives the object.
    pub fn keeps_database(&self) -> bool {
        S::DATABASE_STAYS || self.object.deletion_policy() == DeletionPolicy::Retain
    }

    /// Whether the service has run before.
    pub fn has_run(&self) -> bool {
        self.recorded.installed.is_some()
    }

    /// The component that serves the API.
    pub fn api_component(&self) -> Option<&Component> {
        self.description.components.iter().find(|component| component.name == API)
    }

    fn wsgi(&self) -> Option<&Wsgi> {
        self.api_component()?.wsgi()
    }

    /// The Secret with the API's certificate; none without TLS.
    pub(crate) fn tls_secret(&self) -> Option<Ref> {
        tls::secret(&self.instance, self.object.tls())
    }

    /// Where the API answers within the cluster, without its version.
    pub fn endpoint(&self) -> Option<String> {
        let scheme = if self.tls_secret().is_some() { "https" } else { "http" };
        Some(format!("{scheme}://{}:{}", self.instance.host(), self.wsgi()?.port))
    }

    /// Where it answers for clients outside, without its version.
    pub fn public_endpoint(&self) -> Option<String> {
        let url = published(self.object).or_else(|| self.endpoint())?;
        let url = url.trim_end_matches('/');
        Some(url.strip_suffix(S::VERSION).unwrap_or(url).trim_end_matches('/').to_owned())
    }

    /// The address in the public endpoint, if clients use one: the certificate must be valid for it. Behind a name there may be
    /// a proxy with a certificate of its own.
    pub(crate) fn public_address(&self) -> Option<IpAddr> {
        let endpoint = self.object.public_endpoint()?.to_string();
        let authority = endpoint.strip_prefix("https://")?.split('/').next()?;
        let address = authority.parse::<SocketAddr>().map(|address| address.ip());
        address.or_else(|_| authority.trim_matches(['[', ']']).parse()).ok()
    }

    /// The question whether the API answers.
    pub(crate) fn probe(&self) -> Option<Probe> {
        let wsgi = self.wsgi()?;
        Some(Probe {
            namespace: self.instance.namespace.clone(),
            service: self.instance.name.clone(),
            port: wsgi.port,
            tls: wsgi.tls,
            path: wsgi.path.into(),
            keeps_text: false,
            interval: Probe::INTERVAL,
        })
    }

    /// The question whether the Ceph pools can be used; none without any.
    pub(crate) fn pools_probe(&self) -> Option<Probe> {
        self.asks(rbd::PATH).filter(|_| !self.description.pools.is_empty())
    }

    /// The question for the service's own report; none without one.
    pub(crate) fn report_probe(&self) -> Option<Probe> {
        self.asks(crate::health::REPORT_PATH).filter(|_| S::REPORT.is_some())
    }

    /// A question to `health.py` whose answer is about others, which fail while the service is well.
    fn asks(&self, path: &str) -> Option<Probe> {
        Some(Probe {
            namespace: self.instance.namespace.clone(),
            service: self.instance.named(API),
            port: self.health_port()?,
            tls: false,
            path: path.into(),
            keeps_text: true,
            interval: Probe::SHORT_INTERVAL,
        })
    }

    /// The port of `health.py`, if it is asked from outside the pods.
    pub(crate) fn health_port(&self) -> Option<i32> {
        let is_asked = !self.description.pools.is_empty() || S::REPORT.is_some();
        self.wsgi().filter(|_| is_asked).map(Wsgi::health_port)
    }

    /// The object that runs a component.
    pub fn workload(&self, component: &Component) -> Ref {
        let (namespace, name) = (&self.instance.namespace, self.instance.named(&component.name));
        match component.kind {
            Kind::Deployment => Ref::namespaced::<Deployment>(namespace, name),
            Kind::StatefulSet { .. } => Ref::namespaced::<StatefulSet>(namespace, name),
            Kind::DaemonSet => Ref::namespaced::<DaemonSet>(namespace, name),
        }
    }

    /// The same as it is now.
    pub(crate) fn live<'i>(&self, component: &Component, inputs: &'i Inputs<S::Kind>) -> Option<&'i DynamicObject> {
        let name = self.instance.named(&component.name);
        match component.kind {
            Kind::Deployment => inputs.own_named::<Deployment>(&name),
            Kind::StatefulSet { .. } => inputs.own_named::<StatefulSet>(&name),
            Kind::DaemonSet => inputs.own_named::<DaemonSet>(&name),
        }
    }

    /// Whether some pod of the API is ready.
    pub(crate) fn serves(&self, inputs: &Inputs<S::Kind>) -> bool {
        let live = self.api_component().and_then(|component| self.live(component, inputs));
        live.is_some_and(|live| live.data["status"]["availableReplicas"].as_i64() > Some(0))
    }

    /// Whether every pod of every component runs the wanted image and is ready.
    pub(crate) fn rolled(&self, inputs: &Inputs<S::Kind>) -> bool {
        self.description.components.iter().all(|component| {
            let Some(live) = self.live(component, inputs) else { return false };
            let containers = live.data["spec"]["template"]["spec"]["containers"].as_array();
            let wanted = containers.is_some_and(|all| all.iter().any(|one| one["image"] == self.image.as_str()));
            wanted && readiness::wait(&self.workload(component), live).is_none()
        })
    }

    /// Whether no component has an object that pods belong to. Such objects are deleted in the foreground, so without them
    /// no pod of theirs runs.
    pub(crate) fn is_stopped(&self, inputs: &Inputs<S::Kind>) -> bool {
        self.description.components.iter().all(|component| self.live(component, inputs).is_none())
    }

    /// Whether every pod of every component has this configuration and is ready.
    pub(crate) fn rolled_out(&self, inputs: &Inputs<S::Kind>, config: &str) -> bool {
        self.description.components.iter().all(|component| {
            let Some(live) = self.live(component, inputs) else { return false };
            let volumes = live.data["spec"]["template"]["spec"]["volumes"].as_array();
            let has_it = volumes.is_some_and(|all| all.iter().any(|volume| volume["secret"]["secretName"] == config));
            // What is switched off, and has no pods left, runs with nothing older.
            let is_off =
                live.data["spec"]["replicas"] == 0 && live.data["status"]["replicas"].as_i64().unwrap_or(0) == 0;
            has_it && (is_off || readiness::wait(&self.workload(component), live).is_none())
        })
    }

    /// What the API has beside its pods.
    pub(crate) fn api<'p>(&'p self, inputs: &'p Inputs<S::Kind>) -> Option<Api<'p>> {
        let component = self.api_component()?;
        Some(Api {
            instance: &self.instance,
            port: self.wsgi()?.port,
            health_port: self.health_port(),
            version: S::VERSION,
            replicas: component.replicas,
            autoscaling: self.object.exposure().autoscaling.as_ref(),
            gateway: self.object.exposure().gateway.as_ref(),
            live: self.live(component, inputs),
            manager: S::MANAGER,
        })
    }
}

/// Completes a WSGI application with what every service's spec can say of it.
fn configured<S: Service>(wsgi: &mut Wsgi, object: &S::Kind) {
    let operations = object.operations();
    wsgi.folder = S::FOLDER;
    wsgi.tls = object.tls().is_some_and(|tls| tls.enabled);
    wsgi.access_log = operations::access_log(operations);
    if let Some(uwsgi) = &operations.uwsgi {
        wsgi.processes = uwsgi.processes.unwrap_or(wsgi.processes);
        wsgi.threads = uwsgi.threads.unwrap_or(wsgi.threads);
        wsgi.harakiri = uwsgi.harakiri.unwrap_or(wsgi.harakiri);
    }
}
