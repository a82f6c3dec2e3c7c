//! The end of a cluster: what it has outside its data folder is taken away, wherever a crash may have left it.

use std::time::Duration;

use c5c3_cri::{Programs, Runtime, links};
use c5c3_network::Namespace;
use futures::future::join_all;

use crate::folder::{Folder, Saved};
use crate::parts::services_table;
use crate::up::{blocking, network};

/// How long containers may take to end once they are asked to.
const GRACE: Duration = Duration::from_secs(10);

/// What could not be removed, and why.
#[derive(Debug, thiserror::Error)]
#[error("left behind: {}", .0.join("; "))]
pub struct Left(Vec<String>);

/// Ends all containers, then everything else. Can be repeated.
pub(crate) async fn remove(
    folder: &Folder,
    saved: &Saved,
    programs: &Programs,
    say: &(dyn Fn(&str) + Sync),
) -> Result<(), Left> {
    let mut left = Vec::new();
    let sites: Vec<_> = saved.nodes.iter().filter_map(|node| folder.site(&node.name).ok()).collect();
    join_all(
        sites.iter().filter(|site| site.socket().exists()).map(|site| stop_containers(Runtime::at(&site.socket()))),
    )
    .await;
    for site in &sites {
        if let Err(error) = blocking(|| c5c3_cri::end_node(site)) {
            left.push(format!("{}: {error}", site.node()));
        }
        say(&format!("{:<10} stopped", site.node()));
    }
    // Nodes share one folder of volumes: its mount, and what containers have mounted in it, goes with the last of them.
    match c5c3_files::unmount_under(&folder.volumes()) {
        Ok(failed) => left.extend(failed.into_iter().map(|(point, error)| format!("{}: {error}", point.display()))),
        Err(error) => left.push(format!("mounts of volumes: {error}")),
    }
    if let Err(error) = c5c3_network::remove(&Namespace::Current, &services_table(folder)).await {
        left.push(error.to_string());
    }
    if let Err(error) = network(folder, saved).and_then(|network| Ok(blocking(|| network.return_nics(programs))?)) {
        left.push(error.to_string());
    }
    if let Err(error) = blocking(|| links::remove(&folder.instance(), programs)) {
        left.push(error.to_string());
    }
    let _ = std::fs::remove_file(folder.control());
    let _ = std::fs::remove_dir(folder.instance().run());
    if left.is_empty() { Ok(()) } else { Err(Left(left)) }
}

/// Asks all containers of a node to end, at the same time; those that don't are killed later.
async fn stop_containers(runtime: Runtime) {
    let Ok(containers) = runtime.list_containers(None).await else { return };
    let stops = containers.iter().map(|container| runtime.stop_container(&container.id, GRACE));
    let _ = tokio::time::timeout(GRACE * 2, join_all(stops)).await;
}
