//! A part of a service that runs in pods of its own: an API, a scheduler, a conductor. Data; [`crate::workload`] makes objects of it.

use c5c3_api::blocks::{Resources, Scheduling};
use c5c3_kit::StepName;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use crate::pod::Mount;
use crate::wsgi::Wsgi;

/// The component that serves a service's API. It is what the Service of the instance's name, routes and autoscaling are for.
pub const API: &str = "api";

/// A part of a service that runs in pods of its own.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a need of its own, and they go with each other in any way")]
pub struct Component {
    /// Its name within the service: `api`, `scheduler`.
    pub name: String,
    /// The step of the graph that makes it; components of one step are made and replaced together.
    pub step: StepName,
    /// The condition that says whether it is ready.
    pub condition: &'static str,
    /// What its pods are managed by.
    pub kind: Kind,
    /// What runs in them.
    pub runs: Runs,
    /// How many of them there are; a DaemonSet has one on each node.
    pub replicas: i32,
    /// What the main container asks for.
    pub resources: Option<Resources>,
    /// Where they go.
    pub scheduling: Option<Scheduling>,
    /// Folders beside the configuration and the certificates.
    pub mounts: Vec<Mount>,
    /// The environment of the main container.
    pub env: Vec<(&'static str, String)>,
    /// Whether the environment has the pod's own address as `POD_IP`, which values of `env` may name as `$(POD_IP)`.
    pub knows_address: bool,
    /// Whether the old pod is gone before the new one starts, as a volume of one node demands.
    pub one_at_a_time: bool,
    /// Whether its pods are ready only while the databases answer.
    pub needs_database: bool,
    /// Whether its pods are ready only while a message broker answers.
    pub needs_bus: bool,
    /// The servers and brokers that these two are about, by their names (`database`, `messaging`); all of them when empty.
    pub relies_on: Vec<String>,
    /// Steps of the service's own that have to be done before it starts.
    pub after: Vec<StepName>,
}

/// What pods are managed by.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A Deployment.
    Deployment,
    /// A StatefulSet, for pods with names and volumes of their own.
    StatefulSet {
        /// The claims that each pod gets.
        claims: Vec<PersistentVolumeClaim>,
    },
    /// A DaemonSet.
    DaemonSet,
}

/// What runs in a component's pods.
#[derive(Clone, Debug)]
pub enum Runs {
    /// A WSGI application.
    Wsgi(Wsgi),
    /// A program.
    Program {
        /// The command.
        command: Vec<String>,
        /// The ports that it serves, with their names.
        ports: Vec<(&'static str, i32)>,
    },
}

impl Component {
    fn new(name: String, runs: Runs) -> Self {
        Self {
            step: name.clone().into(),
            name,
            condition: "DeploymentReady",
            kind: Kind::Deployment,
            runs,
            replicas: 1,
            resources: None,
            scheduling: None,
            mounts: Vec::new(),
            env: Vec::new(),
            knows_address: false,
            one_at_a_time: false,
            needs_database: true,
            needs_bus: false,
            relies_on: Vec::new(),
            after: Vec::new(),
        }
    }

    /// The API, as a WSGI application.
    pub fn api(application: Wsgi) -> Self {
        Self::new(API.into(), Runs::Wsgi(application))
    }

    /// Another WSGI application of the service, such as Nova's metadata. It is reached at a Service of its own, and without TLS.
    pub fn application(name: &'static str, application: Wsgi) -> Self {
        Self::new(name.into(), Runs::Wsgi(Wsgi { name, ..application }))
    }

    /// A program that talks to the database and to others over the message broker.
    pub fn worker(name: impl Into<String>, command: &[&str]) -> Self {
        let command = command.iter().map(|part| (*part).to_owned()).collect();
        let worker = Self::new(name.into(), Runs::Program { command, ports: Vec::new() });
        Self { needs_bus: true, ..worker }
    }

    /// Adds a port that a program serves: it gets a Service of the component's name, and its pods are ready while they listen there.
    ///
    /// # Panics
    /// If it is a WSGI application, which has its port: that is a bug of the operator, which every test of it finds.
    pub fn serves(mut self, name: &'static str, port: i32) -> Self {
        match &mut self.runs {
            Runs::Program { ports, .. } => ports.push((name, port)),
            Runs::Wsgi(_) => panic!("a WSGI application serves the port that it has"),
        }
        self
    }

    /// Has the component made and replaced in the step of another one, in the place of a step of its own name.
    pub fn in_step(self, step: impl Into<StepName>) -> Self {
        Self { step: step.into(), ..self }
    }

    /// Sets how many pods there are.
    pub fn replicas(self, replicas: i32) -> Self {
        Self { replicas, ..self }
    }

    /// Sets what each pod asks for, and where it goes.
    pub fn sized(self, resources: Option<&Resources>, scheduling: Option<&Scheduling>) -> Self {
        Self { resources: resources.cloned(), scheduling: scheduling.cloned(), ..self }
    }

    /// Sets what manages the pods.
    pub fn kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// Sets the condition that says whether it is ready.
    pub fn condition(self, condition: &'static str) -> Self {
        Self { condition, ..self }
    }

    /// Adds a folder.
    pub fn mount(mut self, mount: Mount) -> Self {
        self.mounts.push(mount);
        self
    }

    /// Adds a variable.
    pub fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// Puts the pod's own address into the environment, as `POD_IP`.
    pub fn knows_address(self) -> Self {
        Self { knows_address: true, ..self }
    }

    /// Ends the old pod before the new one starts.
    pub fn one_at_a_time(self) -> Self {
        Self { one_at_a_time: true, ..self }
    }

    /// Names a database server or a broker that its pods are not ready without; others of the service may be down.
    pub fn relies_on(mut self, server: impl Into<String>) -> Self {
        self.relies_on.push(server.into());
        self
    }

    /// Starts after a step of the service's own.
    pub fn after(mut self, step: impl Into<StepName>) -> Self {
        self.after.push(step.into());
        self
    }

    /// The WSGI application, if it is one.
    pub fn wsgi(&self) -> Option<&Wsgi> {
        match &self.runs {
            Runs::Wsgi(wsgi) => Some(wsgi),
            Runs::Program { .. } => None,
        }
    }

    /// What its settings for `health.py` are called; nothing for the API's.
    pub(crate) fn health(&self) -> Option<&str> {
        (self.name != API).then_some(self.name.as_str())
    }

    /// The ports that it serves, with their names.
    pub fn ports(&self) -> Vec<(&'static str, i32)> {
        match &self.runs {
            Runs::Wsgi(wsgi) => vec![(API, wsgi.port)],
            Runs::Program { ports, .. } => ports.clone(),
        }
    }
}
