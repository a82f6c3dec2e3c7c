//! A bound on the number of owners, for objects that many different clients write.

use super::{Operation, Owner, Owners};

/// How many entries of writes by other means than apply are kept apart.
const MAX_UPDATE_OWNERS: usize = 10;

/// Who stands in for the owners that were merged.
const ANCIENT: &str = "ancient-changes";

impl Owners {
    /// Merges the oldest update entries of the same version until few enough are left. Appliers are never merged.
    pub(super) fn cap(&mut self) {
        let (mut updaters, mut owners): (Vec<Owner>, Vec<Owner>) =
            std::mem::take(&mut self.0).into_iter().partition(|owner| owner.operation == Operation::Update);
        updaters.sort_by(|a, b| (&a.time, &a.manager, &a.api_version).cmp(&(&b.time, &b.manager, &b.api_version)));
        let mut next = 0;
        while updaters.len() > MAX_UPDATE_OWNERS && next < updaters.len() {
            let version = updaters[next].api_version.clone();
            match updaters[..next].iter().position(|owner| owner.api_version == version) {
                Some(first) => {
                    let bucket = updaters.iter().position(|owner| is_bucket(owner, &version)).unwrap_or(first);
                    merge(&mut updaters, bucket, next);
                    // What follows moved up by one, unless the entry is the bucket itself.
                    next += usize::from(bucket == next);
                }
                None => next += 1,
            }
        }
        owners.append(&mut updaters);
        self.0 = owners;
    }
}

fn is_bucket(owner: &Owner, version: &str) -> bool {
    owner.manager == ANCIENT && owner.api_version == version && owner.subresource.is_empty()
}

/// Moves the fields of the entry at `from` into the bucket, which takes its time: it is the later one.
fn merge(updaters: &mut Vec<Owner>, bucket: usize, from: usize) {
    if bucket == from {
        return;
    }
    let Owner { fields, time, .. } = updaters[from].clone();
    let bucket = &mut updaters[bucket];
    ANCIENT.clone_into(&mut bucket.manager);
    bucket.subresource.clear();
    bucket.fields = bucket.fields.union(&fields);
    bucket.time = time;
    bucket.as_read = false;
    updaters.remove(from);
}
