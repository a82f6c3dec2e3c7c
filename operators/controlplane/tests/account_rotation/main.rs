//! Rotations of accounts on a database, a message broker and Ceph with the real operators of the services that use them, on an
//! API server whose servers take every account.

mod ceph;
mod crashes;
mod lives;
#[path = "../credential_rotation/mortal.rs"]
mod mortal;
mod site;
