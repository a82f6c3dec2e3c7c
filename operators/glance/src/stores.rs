//! The stores that images are in: Ceph pools, volumes, buckets.

use c5c3_api::blocks::{DeletionPolicy, Size};
use c5c3_api::openstack::{Glance, GlanceBackend, GlanceStore, GlanceVolume, S3Bucket, VolumeAccess};
use c5c3_kit::ini::{Ini, IniError};
use c5c3_kit::{Child, Ref, Step};
use c5c3_service::network::Egress;
use c5c3_service::rbd::Pool;
use c5c3_service::service::NeededSecret;
use c5c3_service::{BackingServices, Instance};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use serde_json::json;

/// Where images are while they are imported, where tasks keep files, and where copies of images are.
pub(crate) const STAGING: &str = "/var/lib/glance/staging";
pub(crate) const TASKS: &str = "/var/lib/glance/tasks";
pub(crate) const CACHE: &str = "/var/lib/glance/cache";

/// How many times the size of the cache its volume may hold.
const CACHE_MARGIN: u64 = 2;

/// The keys of a bucket's Secret.
const KEYS: [&str; 2] = ["AccessKey", "SecretKey"];

/// All stores of a Glance.
#[derive(Debug)]
pub(crate) struct Stores {
    instance: Instance,
    /// The one that images go to unless a client names another is the first.
    all: Vec<GlanceStore>,
    /// Whether volumes outlive the object.
    keeps: bool,
    /// How much space copies of images take in each pod after they are pruned.
    cache: Option<Size>,
    /// How much space there is for images that are imported.
    pub(crate) staging: String,
}

impl Stores {
    /// The stores of an object. The schema holds each to one kind: what is neither a volume nor a bucket is a pool.
    pub(crate) fn of(glance: &Glance, instance: &Instance) -> Self {
        let storage = glance.spec.storage.clone().unwrap_or_default();
        let on_a_volume = storage.backend == GlanceBackend::File;
        let first = GlanceStore {
            name: storage.backend.name().into(),
            rbd: storage.rbd,
            file: on_a_volume.then(|| storage.file.unwrap_or_default()),
            s3: storage.s3,
        };
        Self {
            instance: instance.clone(),
            all: [vec![first], storage.stores].concat(),
            keeps: glance.spec.deletion_policy == DeletionPolicy::Retain,
            cache: storage.cache.map(|cache| cache.size),
            staging: storage.staging_size.map_or_else(|| "20Gi".into(), |size| size.to_string()),
        }
    }

    /// Whether pods keep copies of images.
    pub(crate) fn has_cache(&self) -> bool {
        self.cache.is_some()
    }

    /// The limit of the volume of copies. A kubelet evicts a pod whose volume has outgrown it, and the cache grows until it is pruned:
    /// a full one has room for as much again.
    pub(crate) fn cache_limit(&self) -> Option<String> {
        self.cache.as_ref().map(|size| (size.bytes() * CACHE_MARGIN).to_string())
    }

    /// The Ceph pools among them.
    pub(crate) fn pools(&self) -> Vec<Pool> {
        let pool = |store: &GlanceStore| {
            let pool = Pool::new(&self.instance, &store.name, store.rbd.as_ref(), "images");
            pool.purpose(format!("the store {}", store.name))
        };
        self.all.iter().filter(|store| kind(store) == GlanceBackend::Rbd).map(pool).collect()
    }

    fn buckets(&self) -> impl Iterator<Item = &S3Bucket> {
        self.all.iter().filter_map(|store| store.s3.as_ref())
    }

    fn on_volumes(&self) -> impl Iterator<Item = (&GlanceStore, &GlanceVolume)> {
        self.all.iter().filter_map(|store| Some((store, store.file.as_ref()?)))
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

    fn claim(&self, store: &GlanceStore) -> String {
        match store.name.as_str() {
            "file" => self.instance.named("images"),
            other => self.instance.named(&format!("images-{other}")),
        }
    }

    /// The claims of the volumes among them.
    pub(crate) fn claims(&self) -> Vec<Ref> {
        let claim = |store| Ref::namespaced::<PersistentVolumeClaim>(&self.instance.namespace, self.claim(store));
        self.on_volumes().map(|(store, _)| claim(store)).collect()
    }

    /// What the pods mount: the name of the mount, the claim, the folder.
    pub(crate) fn mounts(&self) -> Vec<(String, String, String)> {
        let mount = |store: &GlanceStore| (format!("images-{}", store.name), self.claim(store), folder(store));
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

    fn volume(&self, store: &GlanceStore, volume: &GlanceVolume) -> Child {
        let spec = json!({
            "accessModes": [volume.access_mode],
            "storageClassName": volume.storage_class,
            "resources": {"requests": {"storage": volume.size}},
        });
        let metadata = self.instance.meta(self.claim(store), "images");
        let spec = Some(serde_json::from_value(spec).expect("a claim is of its kind"));
        Child::new(&PersistentVolumeClaim { metadata, spec, ..PersistentVolumeClaim::default() }).kept(self.keeps)
    }

    /// Writes the sections of all stores.
    pub(crate) fn configure(&self, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
        let enabled = self.all.iter().map(|store| format!("{}:{}", store.name, kind(store).name()));
        conf.set("DEFAULT", "enabled_backends", enabled.collect::<Vec<_>>().as_slice())?;
        conf.set("glance_store", "default_backend", self.all[0].name.as_str())?;
        for store in &self.all {
            section(store, backing, conf)?;
        }
        conf.set("os_glance_staging_store", "filesystem_store_datadir", STAGING)?;
        conf.set("os_glance_tasks_store", "filesystem_store_datadir", TASKS)?;
        if let Some(size) = &self.cache {
            conf.set("DEFAULT", "image_cache_dir", CACHE)?;
            conf.set("DEFAULT", "image_cache_max_size", size.bytes().to_string())?;
        }
        Ok(())
    }
}

fn kind(store: &GlanceStore) -> GlanceBackend {
    match (&store.file, &store.s3) {
        (Some(_), _) => GlanceBackend::File,
        (None, Some(_)) => GlanceBackend::S3,
        (None, None) => GlanceBackend::Rbd,
    }
}

/// Writes the section of a store.
fn section(store: &GlanceStore, backing: &BackingServices, conf: &mut Ini) -> Result<(), IniError> {
    let section = store.name.as_str();
    let Some(bucket) = &store.s3 else {
        if store.file.is_some() {
            conf.set(section, "filesystem_store_datadir", folder(store))?;
            return Ok(());
        }
        let pool = backing.pool_named(section);
        conf.set(section, "rbd_store_pool", pool.pool.as_str())?;
        conf.set(section, "rbd_store_user", pool.user.as_str())?;
        conf.set(section, "rbd_store_ceph_conf", pool.conf(crate::FOLDER))?;
        conf.set(section, "rbd_thin_provisioning", true)?;
        return Ok(());
    };
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
    Ok(())
}

fn folder(store: &GlanceStore) -> String {
    format!("/var/lib/glance/images/{}", store.name)
}
