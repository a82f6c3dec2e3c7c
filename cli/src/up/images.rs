//! Images for the cluster: built unless they are there, and put where its nodes import them from.

use std::time::Duration;

use c5c3_cluster::Folder;
use c5c3_images::{Progress, Ready};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};

use super::say;
use crate::image::import::hand_over;

/// How often the nodes are asked whether they have them.
const INTERVAL: Duration = Duration::from_millis(300);

/// Makes sure that the images are in the cluster's folder. Blocks, and says what it does.
pub(super) fn provide(folder: &Folder, names: &[&str]) -> Result<(), String> {
    let ready = c5c3_images::ensure(names, &Told, |image| hand_over(&folder.images(), image));
    ready.map(drop).map_err(|error| format!("cannot build the images: {error}"))
}

/// Waits until every node has the images.
pub(crate) async fn imported(client: &Client, images: &[Ready]) -> Result<(), String> {
    let nodes: Api<Node> = Api::all(client.clone());
    loop {
        let listed = nodes.list(&ListParams::default()).await.map_err(|error| format!("cannot list nodes: {error}"))?;
        if !listed.items.is_empty() && listed.items.iter().all(|node| has_all(node, images)) {
            return Ok(());
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn has_all(node: &Node, images: &[Ready]) -> bool {
    let there = node.status.as_ref().and_then(|status| status.images.as_ref()).into_iter().flatten();
    let names: Vec<&String> = there.flat_map(|image| image.names.iter().flatten()).collect();
    images.iter().all(|image| names.iter().any(|name| **name == image.reference))
}

/// Says each stage on a line.
struct Told;

impl Progress for Told {
    fn planned(&self, stages: usize) {
        if stages > 0 {
            say(&format!("images     {stages} stages to build; they are kept for the next time"));
        }
    }

    fn begun(&self, image: &str, stage: &str) {
        say(&format!("images     {image}: {stage}"));
    }

    fn ended(&self, image: &str, stage: &str, took: Duration, _: u64) {
        say(&format!("images     {image}: {stage} took {:.1} s", took.as_secs_f64()));
    }

    fn note(&self, text: &str) {
        say(&format!("images     {text}"));
    }
}
