//! Huge pages: those that the machine has reserved, as a resource of a node, and the sizes that a pod asks for.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::pod::Pod;

/// Where the kernel says how many pages of each size are reserved: `hugepages-2048kB/nr_hugepages`.
const RESERVED: &str = "/sys/kernel/mm/hugepages";

/// How the resources are called, before the size.
const RESOURCE: &str = "hugepages-";

/// Bytes of reserved pages by resource, such as `hugepages-2Mi`. Sizes without pages are left out. Each of `nodes` that
/// share the machine has the same number of pages.
pub(crate) fn reserved(nodes: usize) -> BTreeMap<String, i64> {
    reserved_in(Path::new(RESERVED), i64::try_from(nodes).unwrap_or(i64::MAX).max(1))
}

fn reserved_in(folder: &Path, nodes: i64) -> BTreeMap<String, i64> {
    let sizes = fs::read_dir(folder).into_iter().flatten().flatten();
    let amount = |size: fs::DirEntry| {
        let kib: i64 = size.file_name().to_str()?.strip_prefix(RESOURCE)?.strip_suffix("kB")?.parse().ok()?;
        let pages: i64 = fs::read_to_string(size.path().join("nr_hugepages")).ok()?.trim().parse().ok()?;
        let each = pages / nodes;
        (each > 0).then(|| (format!("{RESOURCE}{}", binary(kib)), each * kib * 1024))
    };
    sizes.filter_map(amount).collect()
}

/// A size of so many KiB, as Kubernetes writes it.
fn binary(kib: i64) -> String {
    match kib {
        kib if kib % (1 << 20) == 0 => format!("{}Gi", kib >> 20),
        kib if kib % (1 << 10) == 0 => format!("{}Mi", kib >> 10),
        kib => format!("{kib}Ki"),
    }
}

/// The `pagesize` of the file system for an emptyDir's `medium`, which is `HugePages` or `HugePages-SIZE`. None without a
/// size, for a pod that does not ask for pages of exactly one size.
pub(crate) fn page_size(medium: &str, pod: &Pod) -> Option<String> {
    let of_pod: std::collections::BTreeSet<&str> = pod
        .containers()
        .filter_map(|container| container.resources.as_ref())
        .flat_map(|resources| [&resources.limits, &resources.requests])
        .flatten()
        .flat_map(BTreeMap::keys)
        .filter_map(|name| name.strip_prefix(RESOURCE))
        .collect();
    let size = match medium.strip_prefix("HugePages-") {
        Some(size) => of_pod.contains(size).then_some(size),
        None => of_pod.iter().next().copied().filter(|_| of_pod.len() == 1),
    };
    // The kernel reads 2M, 1G.
    size.map(|size| size.trim_end_matches('i').to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::testing::pod;

    #[test]
    fn reserved_pages_are_divided_between_nodes_and_sizes_without_pages_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for (size, pages) in [("2048kB", "7\n"), ("1048576kB", "2\n"), ("64kB", "0\n")] {
            let size = folder.path().join(format!("hugepages-{size}"));
            fs::create_dir(&size).unwrap();
            fs::write(size.join("nr_hugepages"), pages).unwrap();
        }
        let of = |nodes| reserved_in(folder.path(), nodes).into_iter().collect::<Vec<_>>();
        assert_eq!(of(1), [("hugepages-1Gi".to_owned(), 2 << 30), ("hugepages-2Mi".to_owned(), 14 << 20)]);
        assert_eq!(of(3), [("hugepages-2Mi".to_owned(), 4 << 20)]);
        assert!(reserved_in(&folder.path().join("none"), 1).is_empty());
    }

    #[test]
    fn a_volume_has_pages_of_the_size_that_its_pod_asks_for() {
        let with = |sizes: &[&str]| {
            let limits: BTreeMap<_, _> = sizes.iter().map(|size| (format!("hugepages-{size}"), "1Gi")).collect();
            pod(json!({"containers": [{"name": "qemu", "image": "a", "resources": {"limits": limits}}]}))
        };
        for (medium, sizes, wanted) in [
            ("HugePages", &["2Mi"][..], Some("2M")),
            ("HugePages-1Gi", &["2Mi", "1Gi"], Some("1G")),
            ("HugePages", &["2Mi", "1Gi"], None),
            ("HugePages", &[], None),
            ("HugePages-1Gi", &["2Mi"], None),
        ] {
            assert_eq!(page_size(medium, &with(sizes)).as_deref(), wanted, "{medium} {sizes:?}");
        }
    }
}
