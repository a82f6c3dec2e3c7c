//! What runs once: the schema, the first administrator, stored credentials that are encrypted anew.

use std::collections::BTreeMap;

use c5c3_kit::Child;
use c5c3_kit::config::ConfigFiles;
use c5c3_kit::ini::Ini;
use c5c3_service::job::Run;
use c5c3_service::pod::Mount;
use c5c3_service::upgrade::Course;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use crate::config::{CREDENTIAL_KEYS, FERNET_KEYS, FOLDER, ONCE};
use crate::keys::State;
use crate::parts::Parts;

const MANAGE: &str = "/opt/keystone/bin/keystone-manage";
const PYTHON: &str = "/opt/keystone/bin/python";
const CONFIG: &str = "--config-file=/etc/keystone/keystone.conf";

/// How often what runs once tries to reach the database, ten seconds apart. A pod that serves tries for ever; a Job says
/// that it failed, and makes way for one that has been told of another server.
const TRIES: i32 = 12;

impl Parts<'_> {
    /// The file that the schema is made with: how to reach the database, and nothing that changes more often.
    pub(crate) fn schema_files(&self, ini: &Ini) -> ConfigFiles {
        ConfigFiles::new(&self.instance.namespace, self.instance.named("schema"))
            .file("keystone.conf", once(ini, &["database"]))
    }

    /// Brings the schema to where pods of the wanted version can start.
    pub(crate) fn schema_job(&self, ini: &Ini, course: Course) -> Child {
        let (what, commands): (_, &[&[&str]]) = match course {
            Course::Sync => ("db-sync", &[&[MANAGE, CONFIG, "db_sync"]]),
            Course::Expand | Course::Contract => {
                ("db-expand", &[&[MANAGE, CONFIG, "db_sync", "--expand"], &[MANAGE, CONFIG, "db_sync", "--migrate"]])
            }
        };
        self.schema_run(ini, what, commands)
    }

    /// Takes away what only the old release used, and looks whether the schema is that of the new one.
    pub(crate) fn contract_job(&self, ini: &Ini) -> Child {
        self.schema_run(
            ini,
            "db-contract",
            &[&[MANAGE, CONFIG, "db_sync", "--contract"], &[MANAGE, CONFIG, "db_sync", "--check"]],
        )
    }

    fn schema_run(&self, ini: &Ini, what: &str, commands: &[&[&str]]) -> Child {
        let mut mounts = vec![Mount::secret("config", &self.schema_files(ini).name(), FOLDER)];
        mounts.extend(self.database.mounts());
        // Where the schema is made is where the database is met first.
        let outside = self.database.outside().map(|outside| (outside, PYTHON));
        Run { outside, ..self.run(what, commands, mounts) }.child()
    }

    /// The files of what creates users and projects.
    pub(crate) fn bootstrap_files(&self, ini: &Ini, password: &SecretString) -> ConfigFiles {
        let endpoint = self.endpoint();
        let settings = json!({
            "username": self.bootstrap.admin_user,
            "password": password.expose_secret(),
            "region-id": self.bootstrap.region.to_string(),
            "public-url": self.public_endpoint(),
            "internal-url": endpoint,
            "admin-url": endpoint,
        });
        ConfigFiles::new(&self.instance.namespace, self.instance.named("bootstrap"))
            .file("keystone.conf", once(ini, ONCE))
            .file("bootstrap.py", include_str!("bootstrap.py").into())
            .file("bootstrap.json", settings.to_string().into())
    }

    /// Creates the first administrator and what a cloud begins with. It runs again when anything of that changes.
    pub(crate) fn bootstrap_job(&self, ini: &Ini, password: &SecretString) -> Child {
        let script = format!("{FOLDER}/bootstrap.py");
        let mounts = self.with_keys(&self.bootstrap_files(ini, password));
        self.run("bootstrap", &[&[PYTHON, &script]], mounts).child()
    }

    /// The file of what encrypts stored credentials anew.
    pub(crate) fn credential_files(&self, ini: &Ini) -> ConfigFiles {
        ConfigFiles::new(&self.instance.namespace, self.instance.named("credential"))
            .file("keystone.conf", once(ini, ONCE))
    }

    /// Encrypts stored credentials with the present primary key; none if there was no other before.
    pub(crate) fn credential_job(&self, ini: &Ini, state: &State) -> Option<Child> {
        if state.keys.primary() < 2 {
            return None;
        }
        let inputs = [("c5c3.io/keys".to_owned(), state.keys.fingerprint())].into();
        let mounts = self.with_keys(&self.credential_files(ini));
        let migrate: &[&[&str]] = &[&[MANAGE, CONFIG, "credential_migrate"]];
        Some(Run { inputs, ..self.run("credential-migrate", migrate, mounts) }.child())
    }

    fn with_keys(&self, files: &ConfigFiles) -> Vec<Mount> {
        let mut mounts = vec![
            Mount::secret("config", &files.name(), FOLDER),
            Mount::secret("fernet-keys", &self.fernet().secret(), FERNET_KEYS),
            Mount::secret("credential-keys", &self.credential(None).secret(), CREDENTIAL_KEYS),
        ];
        mounts.extend(self.database.mounts());
        mounts
    }

    fn run<'r>(&'r self, what: &'r str, commands: &'r [&'r [&'r str]], mounts: Vec<Mount>) -> Run<'r> {
        Run {
            instance: &self.instance,
            what,
            image: &self.image,
            commands,
            outside: None,
            env: &[],
            mounts,
            scheduling: self.spec.scheduling.as_ref(),
            inputs: BTreeMap::new(),
        }
    }
}

/// The sections that something needs which runs once.
fn once(ini: &Ini, sections: &[&str]) -> SecretString {
    let mut own = ini.only(sections);
    // The value is a number, which can always be written.
    let _ = own.set("database", "max_retries", TRIES);
    own.render()
}
