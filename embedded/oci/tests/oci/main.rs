//! Images in real stores, registries and readers.

mod bills;
mod fixture;
mod layers;
mod listing;
mod readers;
mod registry;
mod signatures;
mod store;
