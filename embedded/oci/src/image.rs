//! Images, assembled of layers.

use std::collections::BTreeMap;

use jiff::Timestamp;
use oci_spec::image::{
    ANNOTATION_CREATED, Arch, Config, Descriptor, HistoryBuilder, ImageConfiguration, ImageConfigurationBuilder,
    ImageManifestBuilder, MediaType, Os, RootFsBuilder,
};

use crate::{Error, Layer, Layout};

/// An image to be assembled: for Linux, on this machine's architecture.
#[derive(Clone, Debug)]
pub struct Image {
    /// When it was made, in seconds since 1970: of its inputs, not of the clock, so that it can be made again.
    pub created: i64,
    /// How it is run.
    pub config: Config,
    /// What it is made of, the lowest layer first.
    pub steps: Vec<Step>,
    /// What is said of it: becomes the manifest's annotations, and labels beside those of `config`.
    pub annotations: BTreeMap<String, String>,
}

/// A step in which an image was made, with what it has added.
#[derive(Clone, Debug)]
pub struct Step {
    /// What was done, in a few words: the name of the layer to people.
    pub made_by: String,
    /// The layer.
    pub layer: Layer,
}

impl Image {
    /// Puts the image into the store that holds its layers: the same parts are always the same image.
    pub fn assemble(&self, layout: &Layout) -> Result<Descriptor, Error> {
        let created = Timestamp::from_second(self.created)
            .map_err(|error| Error::malformed("the time at which an image was made", &error))?
            .to_string();
        let mut annotations = self.annotations.clone();
        annotations.entry(ANNOTATION_CREATED.to_owned()).or_insert_with(|| created.clone());
        let config = layout.put_document(MediaType::ImageConfig, &self.configuration(&created, &annotations))?;
        let manifest = ImageManifestBuilder::default()
            .schema_version(2u32)
            .media_type(MediaType::ImageManifest)
            .config(config)
            .layers(self.steps.iter().map(|step| step.layer.descriptor.clone()).collect::<Vec<_>>())
            .annotations(annotations.into_iter().collect::<std::collections::HashMap<_, _>>())
            .build()
            .expect("every field of a manifest that must be there is");
        layout.put_document(MediaType::ImageManifest, &manifest)
    }

    fn configuration(&self, created: &str, annotations: &BTreeMap<String, String>) -> ImageConfiguration {
        let mut config = self.config.clone();
        let labels = config.labels_mut().get_or_insert_default();
        labels.extend(annotations.iter().map(|(key, value)| (key.clone(), value.clone())));
        let history = self.steps.iter().map(|step| {
            let history = HistoryBuilder::default().created(created).created_by(step.made_by.as_str());
            history.build().expect("no field of a history must be there")
        });
        let rootfs = RootFsBuilder::default()
            .typ("layers")
            .diff_ids(self.steps.iter().map(|step| step.layer.diff_id.to_string()).collect::<Vec<_>>())
            .build()
            .expect("both fields are there");
        ImageConfigurationBuilder::default()
            .created(created)
            .architecture(Arch::default())
            .os(Os::Linux)
            .config(config)
            .rootfs(rootfs)
            .history(history.collect::<Vec<_>>())
            .build()
            .expect("every field of a configuration that must be there is")
    }
}
