//! The kinds of K-ORC on a whole API server, with a Keystone that keeps resources and fails as told.

mod assignments;
mod credentials;
mod deletion;
mod each_kind;
mod failures;
mod imports;
mod keystone;
mod lives;
mod site;
