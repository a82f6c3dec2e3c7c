//! Kinds of Rook (`ceph.rook.io`): a Ceph cluster, the pools in it, and its users.

mod client;
mod cluster;
mod pool;

pub use client::{
    CephClient, CephClientSecurity, CephClientSpec, CephClientStatus, Cephx, CephxKeyType, CephxStatus,
    KeyRotationPolicy,
};
pub use cluster::{
    CephCapacity, CephCluster, CephClusterHealth, CephClusterSpec, CephClusterStatus, CephClusterVersion,
    CephDeviceClass, CephDeviceSet, CephHealthMessage, CephMgrs, CephMons, CephStorage, CephStorageStatus,
    CephVersionImage, ClaimTemplate, CleanupPolicy, External,
};
pub use pool::{CephBlockPool, CephBlockPoolSpec, CephBlockPoolStatus, PoolMirroring, PoolQuotas, Replicated};

/// What looks after these kinds, in messages.
const OPERATOR: &str = "Rook";

/// The namespace that Rook and its cluster are in, by convention: Rook's own manifests use it.
pub const NAMESPACE: &str = "rook-ceph";

/// The ConfigMap that tells where monitors are, in the namespace of the cluster.
pub const MON_ENDPOINTS: &str = "rook-ceph-mon-endpoints";

/// The Secret with the identity of a cluster, in its namespace: `fsid`, and the key of `client.admin`.
pub const MON_SECRET: &str = "rook-ceph-mon";

/// The addresses of monitors out of the value `data` of [`MON_ENDPOINTS`], such as `a=10.0.0.1:6789,b=10.0.0.2:6789`; as
/// `mon_host` takes them.
pub fn mon_host(endpoints: &str) -> String {
    let addresses = endpoints.split(',').filter_map(|endpoint| Some(endpoint.split_once('=')?.1.trim()));
    addresses.filter(|address| !address.is_empty()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_monitors_lose_their_names() {
        assert_eq!(mon_host("a=192.0.2.1:6789,b=192.0.2.2:3300"), "192.0.2.1:6789,192.0.2.2:3300");
        assert_eq!(mon_host(""), "");
        assert_eq!(mon_host("a=,b"), "");
    }
}
