//! The stores that images are in: Ceph pools, volumes, buckets.

use c5c3_api::blocks::{CephRbd, DeletionPolicy};
use c5c3_api::openstack::{Glance, GlanceBackend, GlanceVolume, S3Bucket, VolumeAccess};
use c5c3_kit::ini::{Ini, IniError};
use c5c3_kit::{Child, Ref, Step};
use c5c3_service::network::Egress;
use c5c3_service::rbd::Pool;
use c5c3_service::service::NeededSecret;
use c5c3_service::{BackingServices, Instance};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, Secret, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Where images are while they are imported, where tasks keep files, and where copies of images are.
pub(crate) const STAGING: &str = "/var/lib/glance/staging";
pub(crate) const TASKS: &str = "/var/lib/glance/tasks";
pub(crate) const CACHE: &str = "/var/lib/glance/cache";

/// The keys of a bucket's Secret.
const KEYS: [&str; 2] = ["AccessKey", "SecretKey"];

/// All stores of a Glance.
#[derive(Debug)]
pub(crate) struct Stores {
    instance: Instance,
    /// The one that images go to unless a client names another is the first.
    all: Vec<Store>,
    /// Whether volumes outlive the object.
    keeps: bool,
    /// How much space copies of images take in each pod.
    pub(crate) cache: Option<String>,
    cache_bytes: u64,
    /// How much space there is for images that are imported.
    pub(crate) staging: String,
}

#[derive(Debug)]
struct Store {
    name: String,
    holds: Holds,
}

#[derive(Debug)]
enum Holds {
    Pool(Option<CephRbd>),
    Volume(GlanceVolume),
    Bucket(S3Bucket),
}

impl Stores {
    /// The stores of an object.
    pub(crate) fn of(glance: &Glance, instance: &Instance) -> Self {
        let storage = glance.spec.storage.clone().unwrap_or_default();
        let first = match (storage.backend, storage.s3) {
            (GlanceBackend::S3, Some(bucket)) => Holds::Bucket(bucket),
            (GlanceBackend::File, _) => Holds::Volume(storage.file.unwrap_or_default()),
            // The schema refuses s3 without a bucket.
            _ => Holds::Pool(storage.rbd),
        };
        let mut stores = vec![Store { name: storage.backend.name().into(), holds: first }];
        for store in storage.stores {
            let holds = match (store.file, store.s3) {
                (Some(volume), _) => Holds::Volume(volume),
                (None, Some(bucket)) => Holds::Bucket(bucket),
                (None, None) => Holds::Pool(store.rbd),
            };
            stores.push(Store { name: store.name, holds });
        }
        Self {
            instance: instance.clone(),
            all: stores,
            keeps: glance.spec.deletion_policy == DeletionPolicy::Retain,
            cache_bytes: storage.cache.as_ref().map_or(0, |cache| cache.size.bytes()),
            cache: storage.cache.map(|cache| cache.size.to_string()),
            staging: storage.staging_size.map_or_else(|| "20Gi".into(), |size| size.to_string()),
        }
    }

    /// The Ceph pools among them.
    pub(crate) fn pools(&self) -> Vec<Pool> {
        let pool = |store: &Store| match &store.holds {
            Holds::Pool(rbd) => Some(Pool::new(&self.instance, &store.name, rbd.as_ref(), "images")),
            Holds::Volume(_) | Holds::Bucket(_) => None,
        };
        self.all.iter().filter_map(pool).collect()
    }

    fn buckets(&self) -> impl Iterator<Item = &S3Bucket> {
        self.all.iter().filter_map(|store| match &store.holds {
            Holds::Bucket(bucket) => Some(bucket),
            Holds::Pool(_) | Holds::Volume(_) => None,
        })
    }

    fn on_volumes(&self) -> impl Iterator<Item = (&Store, &GlanceVolume)> {
        self.all.iter().filter_map(|store| match &store.holds {
            Holds::Volume(volume) => Some((store, volume)),
            Holds::Pool(_) | Holds::Bucket(_) => None,
        })
    }

    /// The Secrets of the buckets among them.
    pub(crate) fn secrets(&self) -> Vec<NeededSecret> {
        let needed = |bucket: &S3Bucket, key: &str| NeededSecret {
            reference: Ref::namespaced::<Secret>(&self.instance.namespace, bucket.secret_ref.name.to_string()),
            key: key.to_owned(),
            because: "images are stored in a bucket with it",
            reason: "WaitingForS3Credentials",
        };
        self.buckets().flat_map(|bucket| KEYS.map(|key| needed(bucket, key))).collect()
    }

    /// What pods have to reach for the buckets among them.
    pub(crate) fn calls(&self) -> Vec<Egress> {
        self.buckets().flat_map(|bucket| Egress::to_url(bucket.endpoint.as_str(), &self.instance.namespace)).collect()
    }

    fn claim(&self, store: &Store) -> String {
        match store.name.as_str() {
            "file" => self.instance.named("images"),
            other => self.instance.named(&format!("images-{other}")),
        }
    }

    /// The claims of the volumes among them.
    pub(crate) fn claims(&self) -> Vec<Ref> {
        let namespace = &self.instance.namespace;
        self.on_volumes()
            .map(|(store, _)| Ref::namespaced::<PersistentVolumeClaim>(namespace, self.claim(store)))
            .collect()
    }

    /// What the pods mount: the name of the mount, the claim, the folder.
    pub(crate) fn mounts(&self) -> Vec<(String, String, String)> {
        let mount = |store: &Store| (format!("images-{}", store.name), self.claim(store), folder(store));
        self.on_volumes().map(|(store, _)| mount(store)).collect()
    }

    /// Whether there is a volume that one node at a time can mount.
    pub(crate) fn has_lonely_volume(&self) -> bool {
        self.on_volumes().any(|(_, volume)| volume.access_mode == VolumeAccess::ReadWriteOnce)
    }

    /// The volumes. Pods do not wait for them: some volumes are made where the first pod is.
    pub(crate) fn volumes(&self) -> Option<Step> {
        let claims: Vec<Child> = self.on_volumes().map(|(store, volume)| self.volume(store, volume)).collect();
        let step = Step::new("DeploymentReady").node("volumes", []).done("the volumes for images are there");
        let step = step.reasons("VolumesBound", "WaitingForVolume");
        (!claims.is_empty()).then(|| step.children(claims))
    }

    fn volume(&self, store: &Store, volume: &GlanceVolume) -> Child {
        let mode = match volume.access_mode {
            VolumeAccess::ReadWriteOnce => "ReadWriteOnce",
            VolumeAccess::ReadWriteMany => "ReadWriteMany",
        };
        let size = Quantity(volume.size.to_string());
        let claim = PersistentVolumeClaim {
            metadata: self.instance.meta(self.claim(store), "images"),
            spec: Some(PersistentVolumeClaimSpec {
                access_modes: Some(vec![mode.into()]),
                storage_class_name: volume.storage_class.as_ref().map(ToString::to_string),
                resources: Some(VolumeResourceRequirements {
                    requests: Some([("storage".to_owned(), size)].into()),
                    ..VolumeResourceRequirements::default()
                }),
                ..PersistentVolumeClaimSpec::default()
            }),
            ..PersistentVolumeClaim::default()
        };
        Child::new(&claim).kept(self.keeps)
    }

    /// Writes the sections of all stores.
    pub(crate) fn configure(&self, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
        let enabled: Vec<String> = self.all.iter().map(|store| format!("{}:{}", store.name, store.kind())).collect();
        conf.set("DEFAULT", "enabled_backends", enabled.as_slice())?;
        conf.set("glance_store", "default_backend", self.all[0].name.as_str())?;
        for store in &self.all {
            store.configure(backing, conf)?;
        }
        conf.set("os_glance_staging_store", "filesystem_store_datadir", STAGING)?;
        conf.set("os_glance_tasks_store", "filesystem_store_datadir", TASKS)?;
        if self.cache.is_some() {
            conf.set("DEFAULT", "image_cache_dir", CACHE)?;
            // What is being copied is beyond the limit: a tenth is left for it.
            conf.set("DEFAULT", "image_cache_max_size", (self.cache_bytes / 10 * 9).to_string())?;
        }
        Ok(())
    }
}

impl Store {
    fn kind(&self) -> &'static str {
        match self.holds {
            Holds::Pool(_) => GlanceBackend::Rbd.name(),
            Holds::Volume(_) => GlanceBackend::File.name(),
            Holds::Bucket(_) => GlanceBackend::S3.name(),
        }
    }

    fn configure(&self, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
        let section = self.name.as_str();
        match &self.holds {
            Holds::Pool(_) => {
                let pool = backing.pool_named(section);
                conf.set(section, "rbd_store_pool", pool.pool.as_str())?;
                conf.set(section, "rbd_store_user", pool.user.as_str())?;
                conf.set(section, "rbd_store_ceph_conf", pool.conf(crate::FOLDER))?;
                conf.set(section, "rbd_thin_provisioning", true)?;
            }
            Holds::Volume(_) => {
                conf.set(section, "filesystem_store_datadir", folder(self))?;
            }
            Holds::Bucket(bucket) => {
                let secret = bucket.secret_ref.name.to_string();
                let [access, key] = KEYS.map(|key| backing.secret(&secret, key));
                conf.set(section, "s3_store_host", bucket.endpoint.to_string())?;
                // A bucket that is made is asked for in it, which object stores without regions refuse.
                if let Some(region) = &bucket.region {
                    conf.set(section, "s3_store_region_name", region.as_str())?;
                }
                conf.set(section, "s3_store_access_key", access)?;
                conf.set(section, "s3_store_secret_key", key)?;
                conf.set(section, "s3_store_bucket", bucket.bucket.as_str())?;
                conf.set(section, "s3_store_create_bucket_on_put", true)?;
                // Names of buckets need no names of hosts then.
                conf.set(section, "s3_store_bucket_url_format", "path")?;
            }
        }
        Ok(())
    }
}

fn folder(store: &Store) -> String {
    format!("/var/lib/glance/images/{}", store.name)
}
