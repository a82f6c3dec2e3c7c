//! One file of an image, without unpacking the others.

use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use oci_spec::image::Descriptor;
use tar::{Archive, EntryType};

use crate::{Error, Layout};

/// What a layer has to do with a path.
enum Found {
    /// The path is a regular file of so many bytes.
    File(u64),
    /// The path is deleted, or is something else now.
    Gone,
    Nothing,
}

impl Layout {
    /// Writes a regular file of an image to a file outside, which is there when it is whole; how many bytes it has. The
    /// path is the one in a container; symbolic links are not followed.
    pub fn extract(&self, image: &Descriptor, path: &str, to: &Path) -> Result<u64, Error> {
        let path = path.trim_start_matches('/');
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut written = tempfile::NamedTempFile::new_in(folder).map_err(Error::file("make a file in", folder))?;
        let missing = || Error::NoFile { image: image.digest().clone(), path: path.to_owned() };
        for layer in self.manifest(image)?.layers().iter().rev() {
            let copied = self.copy_out(layer, path, written.as_file_mut());
            match copied.map_err(Error::file("read the files of", self.path(layer.digest())?))? {
                Found::Nothing => {}
                Found::Gone => return Err(missing()),
                Found::File(size) => {
                    let readable = std::fs::Permissions::from_mode(0o644);
                    written.as_file().set_permissions(readable).map_err(Error::file("make readable", to))?;
                    written.as_file().sync_all().map_err(Error::file("sync", to))?;
                    written.persist(to).map_err(|error| Error::file("write", to)(error.error))?;
                    return Ok(size);
                }
            }
        }
        Err(missing())
    }

    fn copy_out(&self, layer: &Descriptor, wanted: &str, into: &mut std::fs::File) -> io::Result<Found> {
        let mut found = Found::Nothing;
        let mut archive = Archive::new(self.unpacked(layer)?);
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = entry.path()?.to_string_lossy().trim_start_matches("./").trim_end_matches('/').to_owned();
            if path == wanted && entry.header().entry_type() == EntryType::Regular {
                let mut file = BufWriter::new(&mut *into);
                found = Found::File(io::copy(&mut entry, &mut file)?);
                file.flush()?;
            } else if path == wanted || (matches!(found, Found::Nothing) && deletes(&path, wanted)) {
                found = Found::Gone;
            }
        }
        // To the end, where it shows whether the layer is what its digest says.
        io::copy(&mut archive.into_inner(), &mut io::sink())?;
        Ok(found)
    }
}

/// Whether an entry deletes a path of the layers below, or a folder that it is in.
fn deletes(entry: &str, wanted: &str) -> bool {
    let (folder, name) = entry.rsplit_once('/').unwrap_or(("", entry));
    let gone = match name {
        ".wh..wh..opq" => folder.to_owned(),
        _ => match name.strip_prefix(".wh.") {
            Some(gone) if folder.is_empty() => gone.to_owned(),
            Some(gone) => format!("{folder}/{gone}"),
            None => return false,
        },
    };
    wanted.strip_prefix(&gone).is_some_and(|rest| gone.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::spec::Config;
    use crate::{Compression, Image, Layer, Step};

    /// An image of layers, each with some files.
    fn image(layout: &Layout, layers: &[&[(&str, &str)]]) -> Descriptor {
        let steps = layers.iter().map(|files| {
            let folder = tempfile::tempdir().unwrap();
            for (path, text) in *files {
                let file = folder.path().join(path);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
            let layer = Layer::of_folder(layout, folder.path(), 0, Compression::Gzip).unwrap();
            Step { made_by: "a test".into(), layer }
        });
        let image = Image { created: 0, config: Config::default(), steps: steps.collect(), annotations: [].into() };
        image.assemble(layout).unwrap()
    }

    #[test]
    fn the_file_of_the_highest_layer_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::open(folder.path().join("oci")).unwrap();
        let image =
            image(&layout, &[&[("opt/disk", "old"), ("opt/other", "")], &[("opt/disk", "newer")], &[("x", "")]]);
        let to = folder.path().join("disk");
        assert_eq!(layout.extract(&image, "/opt/disk", &to).unwrap(), 5);
        assert_eq!(fs::read_to_string(&to).unwrap(), "newer");
    }

    #[test]
    fn a_path_that_is_no_file_is_refused_by_its_name_and_leaves_none() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::open(folder.path().join("oci")).unwrap();
        let image = image(&layout, &[&[("opt/disk", "old")]]);
        let to = folder.path().join("disk");
        for path in ["/opt/dusk", "/opt"] {
            let error = layout.extract(&image, path, &to).unwrap_err().to_string();
            assert!(error.contains(path) && error.contains(image.digest().digest()), "{error}");
        }
        assert!(!to.exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_layer_deletes_what_it_names_and_what_is_below() {
        for (entry, gone) in [
            ("opt/.wh.disk", true),
            (".wh.opt", true),
            ("opt/.wh..wh..opq", true),
            (".wh..wh..opq", true),
            ("opt/.wh.dis", false),
            (".wh.op", false),
            ("opt/disk2", false),
        ] {
            assert_eq!(deletes(entry, "opt/disk"), gone, "{entry}");
        }
    }
}
