//! How a service's schemas follow its version: commands as data, and the Jobs that run them.
//!
//! ```text
//!  install                                                one release, nothing else runs: everything at once
//!  before ─► new pods ─► after                             from one release to the next: what the new one adds, then what
//!                                                         only the old one used goes
//!  before ─► pods stop ─► offline ─► new pods ─► after     the same with commands that bear no running pods
//! ```
//!
//! All Jobs of an instance that change schemas are of one group: they never run at the same time.

use c5c3_kit::Child;
use c5c3_kit::config::ConfigFiles;
use c5c3_kit::ini::Ini;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::job::{Command, Run};
use crate::upgrade::MigrationPhase;

/// The group of Jobs that change schemas.
pub const GROUP: &str = "schema";

/// How often what runs once tries to reach the database, ten seconds apart. A pod that serves tries for ever; a Job reports
/// its failure, and makes way for one that has been told of another server.
const TRIES: i32 = 12;

/// A service's commands.
#[derive(Clone, Debug, Default)]
pub struct Migrations {
    /// Everything at once.
    pub install: Vec<Command>,
    /// What pods of a new release need, while those of the old one still run.
    pub before: Vec<Command>,
    /// What must not run beside any pod of the service. With such commands an upgrade interrupts the service.
    pub offline: Vec<Command>,
    /// What is left when all pods are of the new release.
    pub after: Vec<Command>,
    /// The sections of the configuration that the commands read.
    pub sections: &'static [&'static str],
    /// The variables that the commands read.
    pub env: &'static [(&'static str, &'static str)],
}

impl Migrations {
    /// A service whose only step is compatible with pods of the release before.
    pub fn sync(command: Command) -> Self {
        Self { install: vec![command.clone()], before: vec![command], ..Self::default() }
    }

    /// Adds a command that is run while no pod of the service runs, and at an installation.
    pub fn offline(mut self, command: Command) -> Self {
        self.install.push(command.clone());
        self.offline.push(command);
        self
    }

    /// Adds a command that is run when all pods are of the new release, and after an installation.
    pub fn online(mut self, command: Command) -> Self {
        self.install.push(command.clone());
        self.after.push(command);
        self
    }

    /// Adds a command that is run after an installation, and when all pods are of the new release.
    pub fn check(mut self, command: Command) -> Self {
        self.install.push(command.clone());
        self.after.push(command);
        self
    }

    /// Names the sections that the commands read.
    pub fn sections(self, sections: &'static [&'static str]) -> Self {
        Self { sections, ..self }
    }

    /// Sets variables that the commands read.
    pub fn env(self, env: &'static [(&'static str, &'static str)]) -> Self {
        Self { env, ..self }
    }

    /// What the Job of a phase is called, and its commands.
    fn of(&self, migration_phase: MigrationPhase) -> (&'static str, &[Command]) {
        match migration_phase {
            MigrationPhase::Sync => ("db-sync", &self.install),
            MigrationPhase::Expand | MigrationPhase::Stop | MigrationPhase::Offline | MigrationPhase::Contract => {
                ("db-expand", &self.before)
            }
        }
    }
}

/// The Jobs of a service's schemas; `run` is what all Jobs of the service have in common.
#[derive(Debug)]
pub struct Schemas<'a> {
    /// The commands.
    pub migrations: &'a Migrations,
    /// The main configuration file and its name.
    pub conf: (&'static str, &'a Ini),
    /// What a Job is about: the servers and schemas. For another server or schema the Job runs again.
    pub identity: Value,
    /// Files beside the main one, such as the configuration of each cell.
    pub more: Vec<(String, SecretString)>,
    /// What all Jobs have in common. Its mounts are certificates.
    pub run: Run<'a>,
    /// Where the configuration is mounted.
    pub folder: &'static str,
}

impl Schemas<'_> {
    /// The file that schemas are migrated with: how to reach the databases, and nothing that changes more often.
    pub fn files(&self) -> ConfigFiles {
        let (name, conf) = self.conf;
        let instance = self.run.instance;
        let files = ConfigFiles::new(&instance.namespace, instance.named("schema"));
        let files = files.file(name, once(conf, self.migrations.sections));
        self.more.iter().fold(files, |files, (name, content)| files.file(name, content.clone()))
    }

    /// The Job that brings schemas to where pods of the wanted version can start, but for what is done offline; none if there
    /// is nothing to do.
    pub fn before(&self, migration_phase: MigrationPhase) -> Option<Child> {
        let (what, commands) = self.migrations.of(migration_phase);
        self.job(what, commands)
    }

    /// The Job that runs while no pod of the service does; none if nothing asks for that.
    pub fn offline(&self) -> Option<Child> {
        self.job("db-offline", &self.migrations.offline)
    }

    /// The Job that runs when all pods are of the new release; none if nothing is left to do then.
    pub fn after(&self) -> Option<Child> {
        self.job("db-contract", &self.migrations.after)
    }

    fn job(&self, what: &str, commands: &[Command]) -> Option<Child> {
        if commands.is_empty() {
            return None;
        }
        let mut mounts = vec![crate::pod::Mount::secret("config", &self.files().name(), self.folder)];
        mounts.extend(self.run.mounts.clone());
        let run = Run {
            what,
            commands,
            mounts,
            env: self.migrations.env,
            identity: json!({ "schemas": self.identity }),
            group: Some(GROUP),
            ..self.run.clone()
        };
        Some(run.child())
    }
}

/// The sections that something needs which runs once. It gives up after a while, where a pod that serves tries for ever.
pub fn once(conf: &Ini, sections: &[&str]) -> SecretString {
    let mut own = conf.only(sections);
    for section in sections.iter().filter(|section| section.ends_with("database")) {
        // The value is a number, which can always be written.
        let _ = own.set(section, "max_retries", TRIES);
    }
    own.render()
}
