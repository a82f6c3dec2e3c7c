//! The kinds of K-ORC on a whole API server, with a Keystone that keeps resources and fails as told.

mod assignments;
mod complete;
mod credentials;
mod deletion;
mod dependencies;
mod each_kind;
mod failures;
mod imports;
mod keystone;
mod kinds;
mod lives;
mod refusals;
mod rights;
mod site;
mod upstream;
