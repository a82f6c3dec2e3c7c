//! CredentialRotations on a whole API server, with K-ORC's operator, and a Keystone that keeps what it is given.

mod crashes;
#[path = "../../../orc/tests/orc/keystone.rs"]
#[allow(dead_code)] // It can do more than rotations need.
mod keystone;
mod lives;
mod mortal;
mod site;
mod stores;
