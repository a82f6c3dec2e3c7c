//! The steps of a Keystone: which objects, in which order, and what each waits for.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_kit::config::ConfigFiles;
use c5c3_kit::ini::Ini;
use c5c3_kit::{Child, Inputs, Step, Wait, hash, readiness};
use c5c3_service::api::{Api, COMPONENT};
use c5c3_service::database::{Account, Address, Database};
use c5c3_service::pod::{Mount, Pod, spread};
use c5c3_service::policy::{self, Rules};
use c5c3_service::upgrade::Course;
use c5c3_service::{dependencies, network, tls};
use k8s_openapi::api::core::v1::Secret;
use secrecy::SecretString;

use crate::config::{self, CREDENTIAL_KEYS, Connections, FERNET_KEYS, FOLDER};
use crate::keys::{self, PROPAGATION, State};
use crate::parts::{PORT, Parts, VERSION};
use crate::rotation::{Decision, Undecided};
use c5c3_api::openstack::Keystone;

/// How soon the API is asked again that does not answer.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// How soon one is that answers: no watch tells when it ends, and what is said of it must not be old.
const STILL_ANSWERS: Duration = Duration::from_mins(1);

/// What may be the reason that an API does not answer which not everybody may reach.
const UNREACHED: &str = "it is asked through the API server, which may not reach it: spec.networkPolicy.ingress has to name \
                         the API server's addresses (cidr), as those of all clients";

/// Everything that the configuration is made from.
pub(crate) struct Resolved {
    pub(crate) account: Account,
    pub(crate) address: Address,
    pub(crate) servers: Vec<String>,
    pub(crate) rules: Rules,
    pub(crate) ini: Ini,
}

/// What is missing for that, step by step, and the account if it is not.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    pub(crate) account: Option<Account>,
    pub(crate) secrets: Vec<Wait>,
    pub(crate) database: Vec<Wait>,
    pub(crate) config: Vec<Wait>,
}

/// What has been decided about both sets of keys.
pub(crate) struct Keys {
    pub(crate) fernet: Result<Decision, Undecided>,
    pub(crate) credential: Result<Decision, Undecided>,
}

impl Parts<'_> {
    /// Finds everything that the configuration is made from, or says all that is missing. Of a Keystone that runs, nothing
    /// is asked of others but to be known: they come back.
    pub(crate) fn resolve(&self, inputs: &Inputs<Keystone>, rules: Result<Rules, Wait>) -> Result<Resolved, Missing> {
        let runs = self.progress.installed.is_some();
        let mut missing = Missing::default();
        let account = self.database.account(inputs).map_err(|waits| missing.secrets = waits).ok();
        let address = self.database.address(inputs, runs).map_err(|wait| missing.database.push(wait)).ok();
        let servers = self.cache.addresses(inputs).map_err(|wait| missing.config.push(wait)).ok();
        let rules = rules.map_err(|wait| missing.config.push(wait)).ok();
        if !runs {
            missing.config.extend(dependencies::waits(&self.spec.depends_on, inputs, &self.instance.namespace));
        }
        let (Some(account), Some(address), Some(servers), Some(rules), []) =
            (account.clone(), address, servers, rules, missing.config.as_slice())
        else {
            return Err(Missing { account, ..missing });
        };
        let connections = Connections {
            database: self.database.url(&address),
            account: Database::parameters(&account),
            backend: self.cache.backend(),
            servers: &servers,
        };
        match config::keystone_conf(self.spec, connections, !rules.is_empty()) {
            Ok(ini) => Ok(Resolved { account, address, servers, rules, ini }),
            // What users write was looked at before; what is left is what a Secret holds.
            Err(error) => {
                let secret = self.database.needs().swap_remove(0);
                missing.secrets.push(
                    Wait::on(&secret).condition("can be written to a file").now(error.to_string()).failed("Malformed"),
                );
                Err(missing)
            }
        }
    }

    pub(crate) fn secrets_step(&self, inputs: &Inputs<Keystone>, missing: Option<&Missing>) -> Step {
        let mut step = Step::new("SecretsReady").node("secrets", []).done("every Secret is there");
        step.waits = missing.map(|missing| missing.secrets.clone()).unwrap_or_default();
        let (secret, key) = self.admin_secret();
        let admin = inputs.secret(&secret, &key).err();
        step.waits.extend(
            admin.map(|wait| {
                wait.because("the first administrator signs in with it").called("WaitingForAdminCredentials")
            }),
        );
        step
    }

    /// What asks the store for keys that are gone; nothing if all are there.
    pub(crate) fn restore_step(keys: &Keys) -> Option<Step> {
        let asking = [&keys.fernet, &keys.credential].into_iter().filter_map(|decision| match decision {
            // What is waited for is said by the keys.
            Err(Undecided::Asking(ask, _)) => Some((**ask).clone().unwaited()),
            _ => None,
        });
        let asking: Vec<Child> = asking.collect();
        let step = Step::new("FernetKeysReady").node("restore", []).done("the store has answered");
        (!asking.is_empty()).then(|| step.children(asking))
    }

    /// The Secrets with keys, what rotates them and what backs them up.
    pub(crate) fn keys_step(&self, inputs: &Inputs<Keystone>, keys: &Keys) -> Step {
        let scripts = ConfigFiles::new(&self.instance.namespace, self.instance.named("scripts"))
            .file("rotate.py", include_str!("rotate.py").into());
        // What asks the store is not taken away before both answers are, which come one after the other.
        let needs: Vec<_> =
            Self::restore_step(keys).and_then(|step| step.node).map(|node| node.name).into_iter().collect();
        let mut step = Step::new("FernetKeysReady").node("keys", needs).child(scripts.child());
        let mut notes = Vec::new();
        for (repository, decision) in [(self.fernet(), &keys.fernet), (self.credential(None), &keys.credential)] {
            match decision {
                Ok(Decision { state, note, .. }) => {
                    let unsaved = self.store.unwritten(inputs, &self.instance, &repository.secret());
                    let unsaved = unsaved.map(|why| format!("; they are not backed up: {why}")).unwrap_or_default();
                    notes.push(format!("{}: {note}{unsaved}", repository.purpose));
                    step = step.children(repository.objects(state, &self.image, &scripts.name()));
                    // Since when each is the primary tells sets of keys apart, and nothing about the keys.
                    let (secret, version) = (repository.secret(), keys::written(&state.since));
                    let backup = self.store.push(inputs, &self.instance, &secret, &version, repository.kept);
                    step = step.children(backup.map(Child::unwaited));
                }
                Err(Undecided::Asking(_, wait)) => step = step.wait((**wait).clone()),
                Err(Undecided::Unreadable(wrong)) => {
                    let [live, ..] = repository.needs();
                    let wait = Wait::on(&live).condition("holds a set of keys").now(wrong.clone());
                    let remedy = "restore it from a backup; to make new keys, and end every token, delete it";
                    step = step.wait(wait.look_at(remedy).failed("KeysUnreadable"));
                }
            }
        }
        step.done(notes.join("; "))
    }

    /// What keeps keys from being rotated; nothing if they are in time. Nobody waits for it: what mends it may be a change of
    /// the objects that it is about.
    pub(crate) fn rotation_step(keys: &Keys) -> Option<Step> {
        let decided = [&keys.fernet, &keys.credential].into_iter().flatten();
        let waits: Vec<Wait> = decided.filter_map(|decision| decision.overdue.clone()).collect();
        let step = Step::new("FernetKeysReady").node("rotation", ["keys"]);
        (!waits.is_empty()).then_some(Step { waits, ..step })
    }

    pub(crate) fn database_step(&self, resolved: Result<&Resolved, &Missing>) -> Step {
        let step = Step::new("DatabaseReady");
        match resolved {
            Ok(resolved) => {
                let step = step.node("database", []).children(self.database.objects(&resolved.account));
                step.done("there is a database with an account")
            }
            Err(missing) => {
                // The database waits for nothing but its server and its account.
                let objects = missing.account.iter().flat_map(|account| self.database.objects(account));
                let step = step.node("database", ["secrets"]).children(objects);
                Step { waits: missing.database.clone(), ..step.done("there is a database with an account") }
            }
        }
    }

    pub(crate) fn schema_step(&self, resolved: Option<&Resolved>, course: Course) -> Step {
        let step = Step::new("DatabaseReady").done("the schema is that of the version");
        let Some(Resolved { ini, .. }) = resolved else { return step.node("schema", ["database", "config"]) };
        let step = step.node("schema", ["database"]);
        step.child(self.schema_files(ini).child()).child(self.schema_job(ini, course))
    }

    pub(crate) fn contract_step(&self, resolved: &Resolved) -> Step {
        let step = Step::new("DatabaseReady").node("contract", ["deployment"]);
        step.child(self.contract_job(&resolved.ini)).done("what only the old release used is gone")
    }

    pub(crate) fn config_step(&self, resolved: Result<&Resolved, &Missing>) -> Step {
        let step = Step::new("ConfigReady").done("rendered");
        match resolved {
            Ok(resolved) => step.node("config", []).child(self.files(resolved).child()),
            Err(missing) => Step { waits: missing.config.clone(), ..step.node("config", ["secrets", "database"]) },
        }
    }

    fn files(&self, resolved: &Resolved) -> ConfigFiles {
        let connection = self.database.connection(&resolved.account, &resolved.address);
        let mut files = ConfigFiles::new(&self.instance.namespace, self.instance.named("config"))
            .file("keystone.conf", resolved.ini.render())
            .file("warm.py", include_str!("warm.py").into());
        for (name, content) in self.wsgi().files(&connection) {
            files = files.file(name, content);
        }
        if !self.spec.middleware.is_empty() {
            files = files.file("filters.py", include_str!("filters.py").into());
        }
        if !resolved.rules.is_empty() {
            files = files.file("policy.yaml", policy::render(&resolved.rules).into());
        }
        files
    }

    fn api<'a>(&'a self, inputs: &'a Inputs<Keystone>) -> Api<'a> {
        Api {
            instance: &self.instance,
            port: PORT,
            version: VERSION,
            replicas: self.spec.replicas.get(),
            autoscaling: self.spec.autoscaling.as_ref(),
            gateway: self.spec.gateway.as_ref(),
            live: inputs.get(&self.deployment()),
            manager: crate::NAME,
        }
    }

    /// Where the API is reached: known before it is there, since the catalog is made from it.
    pub(crate) fn services_step(&self, inputs: &Inputs<Keystone>) -> Step {
        let services = self.api(inputs).services();
        Step::new("DeploymentReady").node("services", []).children(services).done("it has an address")
    }

    /// What leads to it from outside; nothing if nothing does. Nobody waits for it but who waits for everything: Gateways are
    /// of somebody else.
    pub(crate) fn route_step(&self, inputs: &Inputs<Keystone>) -> Option<Step> {
        let step = Step::new("DeploymentReady").node("route", ["services"]).done("its Gateway leads to it");
        self.api(inputs).route().map(|route| step.child(route))
    }

    /// The pods, and everything around them.
    pub(crate) fn deployment_step(&self, inputs: &Inputs<Keystone>, resolved: Option<&Resolved>) -> Step {
        let step = Step::new("DeploymentReady").node("deployment", ["schema", "config", "keys"]);
        let Some(resolved) = resolved else { return step };
        let api = self.api(inputs);
        let reaches = self.reaches(&resolved.address, &resolved.servers);
        let policy = network::policy(&self.instance, COMPONENT, PORT, &reaches, self.spec.network_policy.as_ref());
        let addresses: Vec<_> = self.public_address().into_iter().collect();
        step.children(tls::certificate(&self.instance, self.tls(), &addresses))
            .children(policy)
            .children(api.around())
            .child(api.deployment(self.pod(inputs, resolved)))
            .done("all pods are up to date and available")
    }

    fn pod(&self, inputs: &Inputs<Keystone>, resolved: &Resolved) -> k8s_openapi::api::core::v1::PodTemplateSpec {
        let scheduling = self.spec.scheduling.as_ref();
        let mut mounts = vec![
            Mount::secret("config", &self.files(resolved).name(), FOLDER),
            Mount::secret("fernet-keys", &self.fernet().secret(), FERNET_KEYS),
            Mount::secret("credential-keys", &self.credential(None).secret(), CREDENTIAL_KEYS),
        ];
        mounts.extend(self.database.mounts());
        let wsgi = self.wsgi();
        let env = [("OS_KEYSTONE_CONFIG_DIR", FOLDER)];
        let mut containers = vec![wsgi.container(&self.image, &env, self.spec.resources.as_ref())];
        let mut annotations = BTreeMap::new();
        if let Some(secret) = self.tls_secret() {
            mounts.push(tls::mount(&secret));
            containers.push(tls::container(&secret, PORT, wsgi.own_port()));
            let certificate = inputs.typed::<Secret>(&secret).ok().and_then(|secret| secret.data?.remove("tls.crt"));
            annotations.extend(certificate.map(|bytes| ("c5c3.io/certificate".to_owned(), hash::short(&bytes.0))));
        }
        let pod = Pod {
            instance: &self.instance,
            component: COMPONENT,
            containers,
            init_containers: Vec::new(),
            mounts,
            scheduling,
            service_account: None,
            annotations,
        };
        let mut template = pod.template();
        if let Some(spec) = &mut template.spec {
            spec.topology_spread_constraints = Some(spread(&self.instance, COMPONENT, scheduling));
        }
        template
    }

    pub(crate) fn bootstrap_step(&self, resolved: Option<&Resolved>, password: Option<&SecretString>) -> Step {
        let step = Step::new("BootstrapReady");
        let (Some(Resolved { ini, .. }), Some(password)) = (resolved, password) else {
            return step.node("bootstrap", ["secrets", "schema", "config", "keys"]);
        };
        let step = step.node("bootstrap", ["secrets", "schema", "keys"]);
        let done = format!("{} is the administrator of {}", self.bootstrap.admin_user, self.bootstrap.region);
        let files = self.bootstrap_files(ini, password);
        step.child(files.child()).child(self.bootstrap_job(ini, password)).done(done)
    }

    /// Stored credentials encrypted anew, once every pod has the key.
    pub(crate) fn credentials_step(
        &self,
        inputs: &Inputs<Keystone>,
        resolved: &Resolved,
        state: &State,
    ) -> Option<Step> {
        let job = self.credential_job(&resolved.ini, state)?;
        let step = Step::new("FernetKeysReady").node("credentials", ["schema", "keys"]);
        let since = state.since.get(&state.keys.primary())?;
        let passed = Duration::try_from(inputs.now.duration_since(*since)).unwrap_or_default();
        if passed < PROPAGATION {
            return Some(step.done("stored credentials are encrypted anew when every pod has the key"));
        }
        let step = step.child(self.credential_files(&resolved.ini).child()).child(job);
        Some(step.done("stored credentials are encrypted with the primary"))
    }

    /// Whether the API answers.
    pub(crate) fn health_step(&self, inputs: &Inputs<Keystone>) -> (Step, Option<Duration>) {
        // While pods are replaced the others answer.
        let needs = if self.serves(inputs) { Vec::new() } else { vec!["deployment"] };
        let step = Step::new("KeystoneAPIReady").node("health", needs).done("the API answers");
        if self.spec.replicas.get() == 0 && self.spec.autoscaling.is_none() {
            return (step.done("switched off"), None);
        }
        let wait = Wait::on(&self.deployment()).condition("answers").because("clients ask it for tokens");
        let look = format!("kubectl logs deployment/{} -n {}", self.instance.named(COMPONENT), self.instance.namespace);
        match inputs.answer(&self.probe()) {
            Some(Ok(())) => (step, Some(STILL_ANSWERS)),
            Some(Err(said)) => {
                let wait = if network::is_restricted(self.spec.network_policy.as_ref()) {
                    wait.because(UNREACHED)
                } else {
                    wait
                };
                (step.wait(wait.now(said.clone()).look_at(look).called("NotAnswering")), Some(ASK_AGAIN))
            }
            None => (step.wait(wait.now("not asked yet").called("NotAskedYet")), None),
        }
    }

    /// Whether some pod is ready.
    pub(crate) fn serves(&self, inputs: &Inputs<Keystone>) -> bool {
        let deployment = inputs.get(&self.deployment());
        deployment.is_some_and(|deployment| deployment.data["status"]["availableReplicas"].as_i64() > Some(0))
    }

    /// Whether every pod runs the wanted image and is ready.
    pub(crate) fn rolled(&self, inputs: &Inputs<Keystone>) -> bool {
        let reference = self.deployment();
        let Some(deployment) = inputs.get(&reference) else { return false };
        let containers = deployment.data["spec"]["template"]["spec"]["containers"].as_array();
        let wanted = containers.is_some_and(|all| all.iter().any(|one| one["image"] == self.image.as_str()));
        wanted && readiness::wait(&reference, deployment).is_none()
    }
}
