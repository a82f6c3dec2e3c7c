//! The cluster of a test: embedded, or a part of another one.

use std::path::Path;
use std::sync::Arc;

use c5c3_auth::UserInfo;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tempfile::TempDir;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use crate::definitions;
use crate::error::Error;
use crate::faults::Fault;
use crate::in_process::InProcess;
use crate::ledger::{Ledger, Made};
use crate::patience::Rounds;
use crate::port::Port;
use crate::removal;
use crate::upstream::Upstream;
use crate::wire::Wire;
use crate::{KUBECONFIG, PREFIX};

/// A cluster for a test. Clones are the same one; with the last of them goes what the test made on another cluster.
#[derive(Clone)]
pub struct TestCluster {
    inner: Arc<Inner>,
}

struct Inner {
    wire: Arc<Wire>,
    place: Place,
    /// The namespace that clients are at home in.
    home: String,
}

/// Where a test cluster is.
enum Place {
    Embedded(Arc<InProcess>),
    Another(Box<Another>),
}

/// A part of another cluster.
struct Another {
    config: Config,
    client: Client,
    ledger: Arc<Ledger>,
}

impl TestCluster {
    /// Starts an empty one; or, with `C5C3_TEST_KUBECONFIG`, takes a part of that cluster.
    pub async fn start() -> Result<Self, Error> {
        Self::start_on(None).await
    }

    /// Starts one that stores on disk, and so comes back from a restart with no more than what it stored.
    pub async fn durable() -> Result<Self, Error> {
        let folder = if std::env::var_os(KUBECONFIG).is_some() { None } else { Some(TempDir::new()?) };
        Self::start_on(folder).await
    }

    async fn start_on(folder: Option<TempDir>) -> Result<Self, Error> {
        if let Some(kubeconfig) = std::env::var_os(KUBECONFIG) {
            return Self::on(Path::new(&kubeconfig)).await;
        }
        Self::start_in_process(folder).await
    }

    /// Starts an embedded one, whatever `C5C3_TEST_KUBECONFIG` says: for tests of what runs beside the embedded server.
    pub async fn in_process() -> Result<Self, Error> {
        Self::start_in_process(None).await
    }

    async fn start_in_process(folder: Option<TempDir>) -> Result<Self, Error> {
        let server = InProcess::start(folder).await?;
        let (wire, place) = (Wire::new(None), Place::Embedded(server));
        Ok(Self { inner: Arc::new(Inner { wire, place, home: "default".to_owned() }) })
    }

    /// Starts an embedded one for a test about the embedded server itself. With `C5C3_TEST_KUBECONFIG` there is none: the
    /// test ends early, and says on standard error why.
    pub async fn embedded(why: &str) -> Result<Option<Self>, Error> {
        if std::env::var_os(KUBECONFIG).is_some() {
            skipped("it is about the embedded API server", why);
            return Ok(None);
        }
        Self::start().await.map(Some)
    }

    /// Starts one for a test that workload controllers or a scheduler would disturb. On another cluster that has them
    /// there is none: the test ends early, and says on standard error why.
    pub async fn without_controllers(why: &str) -> Result<Option<Self>, Error> {
        let cluster = Self::start().await?;
        if cluster.has_controllers().await? {
            skipped("workload controllers would disturb it", why);
            return Ok(None);
        }
        Ok(Some(cluster))
    }

    /// Takes a part of another cluster, as the user of its kubeconfig, who must be an administrator.
    pub async fn on(kubeconfig: &Path) -> Result<Self, Error> {
        let unusable = |source| Error::Kubeconfig { path: kubeconfig.to_owned(), source };
        let read = Kubeconfig::read_from(kubeconfig).map_err(unusable)?;
        let mut config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.map_err(unusable)?;
        // A test sees each answer, as from the embedded server.
        config.default_retry = false;
        let client = Client::try_from(config.clone())?;
        let ledger = Arc::new(Ledger::default());
        let id = uuid::Uuid::new_v4().simple().to_string();
        let home = format!("{PREFIX}{}", &id[..8]);
        let wire = Wire::new(Some(ledger.clone()));
        let place = Place::Another(Box::new(Another { config, client, ledger }));
        let cluster = Self { inner: Arc::new(Inner { wire, place, home }) };
        cluster.make_namespace(cluster.namespace()).await?;
        Ok(cluster)
    }

    /// A client that may do everything, at home in [`TestCluster::namespace`].
    pub fn client(&self) -> Client {
        self.inner.wire.client(self.inner.upstream(None), &self.inner.home)
    }

    /// A client that is that user.
    pub fn client_as(&self, user: UserInfo) -> Client {
        self.inner.wire.client(self.inner.upstream(Some(user)), &self.inner.home)
    }

    /// Opens a port for other processes, which may do everything. It is served by the runtime that this is called in.
    pub fn listen(&self) -> Result<Port, Error> {
        Port::open(self.inner.wire.clone(), self.inner.upstream(None))
    }

    /// The namespace that clients are at home in, and that is the test's own.
    pub fn namespace(&self) -> &str {
        &self.inner.home
    }

    /// Makes another namespace of the test's own, as [`TestCluster::name`] names it, and waits until it is furnished.
    pub async fn namespace_named(&self, name: &str) -> Result<String, Error> {
        let name = self.name(name);
        self.make_namespace(&name).await?;
        Ok(name)
    }

    /// A name of the test's own, for what is in no namespace: `name` itself where no one else is.
    pub fn name(&self, name: &str) -> String {
        match self.inner.place {
            Place::Embedded(_) => name.to_owned(),
            Place::Another(_) => format!("{}-{name}", self.inner.home),
        }
    }

    /// An API group of the test's own, for definitions that it changes: `group` itself where no one else is.
    pub fn group(&self, group: &str) -> String {
        match self.inner.place {
            Place::Embedded(_) => group.to_owned(),
            Place::Another(_) => format!("{}.{group}", self.inner.home),
        }
    }

    /// Installs a definition, and waits until it is served. On another cluster it is shared with all who install it, and
    /// goes with the last of them; one that was there before stays as it is.
    pub async fn install(&self, definition: &CustomResourceDefinition) -> Result<(), Error> {
        if let (Place::Another(another), Some(name)) = (&self.inner.place, &definition.metadata.name) {
            another.ledger.share(name);
        }
        definitions::install(&self.inner.own_client(), &self.inner.home, definition).await
    }

    /// Lets requests fail or wait.
    pub fn inject(&self, fault: Fault) {
        self.inner.wire.faults.add(fault);
    }

    /// The faults that are still to strike, with how often. A test that something survives them asserts that none is left.
    pub fn faults_left(&self) -> Vec<Fault> {
        self.inner.wire.faults.left()
    }

    /// Takes all faults back.
    pub fn heal(&self) {
        self.inner.wire.faults.clear();
    }

    /// Ends every watch that is open.
    pub fn drop_watches(&self) {
        self.inner.wire.cut_watches();
    }

    /// Restarts the server in place: open watches end, requests fail while it is down, and the same clients go on.
    /// Another cluster is not ours to restart: [`Error::NotOurs`].
    pub async fn restart(&self) -> Result<(), Error> {
        match &self.inner.place {
            Place::Embedded(server) => Ok(server.restart().await?),
            Place::Another(another) => Err(Error::NotOurs(another.config.cluster_url.clone())),
        }
    }

    /// Whether someone acts on workloads here.
    async fn has_controllers(&self) -> Result<bool, Error> {
        let client = self.inner.own_client();
        let controllers = Api::<ServiceAccount>::namespaced(client.clone(), "kube-system");
        let nodes = Api::<Node>::all(client).list(&ListParams::default().limit(1)).await?;
        Ok(!nodes.items.is_empty() || controllers.get_opt("deployment-controller").await?.is_some())
    }

    async fn make_namespace(&self, name: &str) -> Result<(), Error> {
        let client = self.inner.own_client();
        if let Place::Another(another) = &self.inner.place {
            another.ledger.add(Made::namespace(name));
        }
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), name);
        let maps = Api::<ConfigMap>::namespaced(client, name);
        let mut rounds = Rounds::begin();
        while accounts.get_opt("default").await?.is_none() || maps.get_opt("kube-root-ca.crt").await?.is_none() {
            if !rounds.next().await {
                return Err(Error::TooLate(format!("the namespace {name} is not furnished")));
            }
        }
        Ok(())
    }
}

impl Inner {
    /// The API as a user sees it; without one, as who may do everything.
    fn upstream(&self, user: Option<UserInfo>) -> Upstream {
        match &self.place {
            Place::Embedded(server) => Upstream::InProcess(server.clone(), user.unwrap_or_else(admin)),
            Place::Another(another) => Upstream::Another(another.client.clone(), user),
        }
    }

    /// A client for what the harness itself does, which no fault strikes.
    fn own_client(&self) -> Client {
        match &self.place {
            Place::Embedded(_) => Wire::new(None).client(self.upstream(None), &self.home),
            Place::Another(another) => another.client.clone(),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Place::Another(another) = &self.place else { return };
        let remove = || removal::remove_everything(another.config.clone(), &self.home, another.ledger.entries());
        let several = |runtime: Handle| runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
        // Other tasks of the test may serve the cluster, or be waited for by who does.
        let left = if Handle::try_current().is_ok_and(several) { block_in_place(remove) } else { remove() };
        if left.is_empty() {
            return;
        }
        let what = format!("left behind on {}: {}", another.config.cluster_url, left.join(", "));
        // A second panic would end the process before the first is told.
        if std::thread::panicking() {
            tell(&what);
        } else {
            panic!("{what}");
        }
    }
}

fn admin() -> UserInfo {
    UserInfo::new("test-admin", ["system:masters", "system:authenticated"])
}

fn skipped(kind: &str, why: &str) {
    tell(&format!("skipped with {KUBECONFIG}: {kind}: {why}"));
}

/// Says something beside a test's result, where the test runner shows it.
fn tell(what: &str) {
    eprintln!("{what}");
}
