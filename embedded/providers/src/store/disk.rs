//! The store on disk: one sealed file beside the key that it is sealed with.
//!
//! Both are for the owner alone (0600). Sealing keeps secrets out of backups and images of the data file; who can read the
//! key file can read everything, as with automatic unsealing of the genuine server.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

/// A folder that holds a store.
pub(super) struct Disk {
    folder: PathBuf,
    key: LessSafeKey,
}

impl Disk {
    /// Opens a folder, and makes the key if there is none.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        c5c3_files::create_private_folder(folder)?;
        let path = folder.join("store.key");
        let mut bytes = Zeroizing::new([0_u8; 32]);
        match File::open(&path) {
            Ok(mut file) => file.read_exact(bytes.as_mut())?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                SystemRandom::new().fill(bytes.as_mut()).map_err(|_| no_randomness())?;
                replace(folder, "store.key", bytes.as_ref())?;
            }
            Err(error) => return Err(error),
        }
        let key = UnboundKey::new(&AES_256_GCM, bytes.as_ref()).map_err(|_| damaged("store.key"))?;
        Ok(Self { folder: folder.to_owned(), key: LessSafeKey::new(key) })
    }

    /// What was written last; none if nothing ever was.
    pub(super) fn read(&self) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        let sealed = match fs::read(self.folder.join("store.sealed")) {
            Ok(sealed) => sealed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let (nonce, content) = sealed.split_at_checked(NONCE_LEN).ok_or_else(|| damaged("store.sealed"))?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| damaged("store.sealed"))?;
        let mut content = Zeroizing::new(content.to_vec());
        let length =
            self.key.open_in_place(nonce, Aad::empty(), &mut content).map_err(|_| damaged("store.sealed"))?.len();
        content.truncate(length);
        Ok(Some(content))
    }

    /// Writes everything again. It is on the disk when this returns, or what was there before still is.
    pub(super) fn write(&self, content: &[u8]) -> io::Result<()> {
        let mut nonce = [0_u8; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| no_randomness())?;
        let mut sealed = content.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(unique, Aad::empty(), &mut sealed).map_err(|_| no_randomness())?;
        replace(&self.folder, "store.sealed", &[&nonce[..], &sealed].concat())
    }
}

pub(super) fn replace(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    c5c3_files::write_private(&folder.join(name), content)
}

fn damaged(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{name} is damaged, or is not of this store"))
}

fn no_randomness() -> io::Error {
    io::Error::other("the system's random number generator failed")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_not_to_be_seen_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        assert!(disk.read().unwrap().is_none());
        disk.write(b"the first riddle").unwrap();
        disk.write(b"the second riddle").unwrap();
        let again = Disk::open(folder.path()).unwrap();
        assert_eq!(again.read().unwrap().unwrap().as_slice(), b"the second riddle");
        for name in ["store.key", "store.sealed"] {
            let file = folder.path().join(name);
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            let content = fs::read(file).unwrap();
            assert!(!content.windows(6).any(|part| part == b"riddle"));
        }
    }

    #[test]
    fn a_store_that_is_damaged_or_has_another_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        Disk::open(folder.path()).unwrap().write(b"riddle").unwrap();
        let path = folder.path().join("store.sealed");
        let mut sealed = fs::read(&path).unwrap();
        sealed[NONCE_LEN + 1] ^= 1;
        fs::write(&path, &sealed).unwrap();
        assert!(Disk::open(folder.path()).unwrap().read().is_err());
        sealed[NONCE_LEN + 1] ^= 1;
        fs::write(&path, &sealed).unwrap();
        fs::remove_file(folder.path().join("store.key")).unwrap();
        assert!(Disk::open(folder.path()).unwrap().read().is_err());
    }
}
