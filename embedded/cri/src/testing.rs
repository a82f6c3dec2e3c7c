//! A cluster's worth of links and containerds for a test, with names and addresses that no other test has, and of which
//! nothing is left when it is dropped.

pub mod pods;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::images::{self, ImageError};
use crate::links::{self, Network, Node};
use crate::{Addresses, Containerd, Instance, Programs, Runtime, Settings, Site, end_node};

/// As many tests may run at the same time, in all processes of this machine.
const SLOTS: u8 = 40;
/// The first of the ranges `10.N.0.0/16`; each slot takes three. Below it, from 123 on, is room for four whole clusters, of tests and
/// of whoever runs them.
const FIRST_RANGE: u8 = 135;
/// Debian's `busybox-static`.
const BUSYBOX: &str = "/bin/busybox";

/// Some nodes on this machine, without a kubelet. Needs root, and the packages that `tools/packages` installs.
#[derive(Debug)]
pub struct Machine {
    /// The instance, which is no one else's.
    pub instance: Instance,
    /// The links, with one node for each of [`sites`](Self::sites).
    pub network: Network,
    /// The nodes: `node-0`, `node-1`, ...
    pub sites: Vec<Site>,
    /// What is run.
    pub programs: Programs,
    folder: TempDir,
    _slot: File,
}

impl Machine {
    /// Makes the links and data folders of some nodes; their containerds are not started.
    pub fn new(nodes: u8) -> Self {
        let programs = Programs::find().unwrap_or_else(|missing| panic!("{missing}"));
        let (slot, number) = take_slot();
        let instance = Instance::new(format!("t{number}")).expect("a short name");
        let folder = tempfile::tempdir().expect("a data folder");
        let site = |index| Site::new(instance.clone(), format!("node-{index}"), folder.path().join(format!("{index}")));
        let sites: Vec<_> = (0..nodes).map(|index| site(index).expect("a good name")).collect();
        let network = Network {
            instance: instance.clone(),
            addresses: Addresses::within(10, FIRST_RANGE + 3 * number),
            nodes: (0..).zip(&sites).map(|(index, site)| Node::new(index, site)).collect(),
        };
        let machine = Self { instance, network, sites, programs, folder, _slot: slot };
        // A test that was killed could not clean up behind itself.
        machine.clean();
        machine.network.ensure(&machine.programs).expect("links");
        machine
    }

    /// The settings of a node's containerd.
    pub fn settings(&self, index: u8) -> Settings {
        let site = self.sites[usize::from(index)].clone();
        Settings {
            programs: self.programs.clone(),
            namespace: Some(site.network_namespace()),
            address: self.network.addresses.node(index),
            pods: self.network.addresses.pods_of(index),
            sandbox_image: images::PAUSE.to_owned(),
            registries: Vec::new(),
            site,
        }
    }

    /// Starts a node's containerd, with the images for sandboxes and for tests.
    pub async fn start(&self, index: u8) -> Containerd {
        let containerd = Containerd::start(self.settings(index)).await.unwrap_or_else(|error| panic!("{error}"));
        self.import(index, &containerd.runtime()).await.unwrap_or_else(|error| panic!("{error}"));
        containerd
    }

    async fn import(&self, index: u8, runtime: &Runtime) -> Result<(), ImageError> {
        let site = &self.sites[usize::from(index)];
        for image in [images::pause(&self.programs)?, images::busybox(Path::new(BUSYBOX))?] {
            let file = self.folder().join(format!("{index}.tar"));
            let written = image.archive().and_then(|archive| std::fs::write(&file, archive));
            written.map_err(|source| ImageError::File { path: file.clone(), source })?;
            images::import(site, &self.programs, runtime, &file).await?;
        }
        Ok(())
    }

    /// Starts a container of a node by containerd alone, so that the CRI still takes it for one that was only made.
    pub fn start_task(&self, index: u8, container: &str) {
        let socket = self.sites[usize::from(index)].socket();
        let mut ctr = Command::new(&self.programs.ctr);
        ctr.arg("--address").arg(socket).args(["--namespace", "k8s.io", "tasks", "start", "--detach", "--null-io"]);
        let done = ctr.arg(container).output().expect("ctr");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// The test's folder, in which the nodes have theirs.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Ends all nodes and removes all links. Done also when this is dropped.
    pub fn clean(&self) {
        // Those of an earlier test of this instance may have been more than ours are.
        let earlier = std::fs::read_dir(self.instance.run().join("nodes")).into_iter().flatten();
        let names = earlier.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let earlier = names.filter_map(|name| Site::new(self.instance.clone(), name, self.folder.path()).ok());
        for site in self.sites.iter().cloned().chain(earlier.collect::<Vec<_>>()) {
            if let Err(remains) = end_node(&site) {
                say(&remains);
            }
        }
        if let Err(error) = links::remove(&self.instance, &self.programs) {
            say(&error);
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.clean();
    }
}

/// A panic while another one unwinds would abort the test, so this only tells; the tests that are about cleaning look
/// for themselves.
#[allow(clippy::print_stderr)]
fn say(problem: &dyn std::fmt::Display) {
    eprintln!("cleaning up: {problem}");
}

/// A number that is ours while the file is open, whatever happens to us.
fn take_slot() -> (File, u8) {
    let folder = std::env::temp_dir().join("c5c3-test-slots");
    std::fs::create_dir_all(&folder).expect("a folder for locks");
    loop {
        for number in 0..SLOTS {
            let file = File::create(folder.join(number.to_string())).expect("a lock");
            if file.try_lock().is_ok() {
                return (file, number);
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
