//! The machine's forwarding of packets: switched on by the first cluster that needs it, and set back by the last.

use std::fs::{self, File};
use std::path::Path;

use super::LinkError;
use crate::Instance;

const SWITCH: &str = "/proc/sys/net/ipv4/ip_forward";
/// How it was before the first, in `before`, and one empty file for each cluster that needs it.
const HOLDERS: &str = "/run/c5c3-forwarding";

/// Switches forwarding on for a cluster.
pub(super) fn hold(instance: &Instance) -> Result<(), LinkError> {
    let _lock = lock()?;
    let folder = Path::new(HOLDERS);
    fs::create_dir_all(folder).map_err(LinkError::file(folder))?;
    let before = folder.join("before");
    if !before.exists() {
        let value = fs::read_to_string(SWITCH).map_err(LinkError::file(Path::new(SWITCH)))?;
        fs::write(&before, value).map_err(LinkError::file(&before))?;
    }
    let holder = folder.join(format!("instance-{instance}"));
    File::create(&holder).map_err(LinkError::file(&holder))?;
    fs::write(SWITCH, "1").map_err(LinkError::file(Path::new(SWITCH)))
}

/// Ends a cluster's need of it.
pub(super) fn release(instance: &Instance) -> Result<(), LinkError> {
    let _lock = lock()?;
    let folder = Path::new(HOLDERS);
    if fs::remove_file(folder.join(format!("instance-{instance}"))).is_err() {
        // It never needed it, or has been here before.
        return Ok(());
    }
    let left = fs::read_dir(folder).map_err(LinkError::file(folder))?.count();
    if left > 1 {
        return Ok(());
    }
    let before = folder.join("before");
    let value = fs::read_to_string(&before).map_err(LinkError::file(&before))?;
    fs::write(SWITCH, value).map_err(LinkError::file(Path::new(SWITCH)))?;
    fs::remove_dir_all(folder).map_err(LinkError::file(folder))
}

/// One at a time. The switch itself is locked: it is there before and after all that we make.
fn lock() -> Result<File, LinkError> {
    let switch = Path::new(SWITCH);
    File::open(switch).and_then(|file| file.lock().map(|()| file)).map_err(LinkError::file(switch))
}
