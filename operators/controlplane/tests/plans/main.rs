//! What becomes of a ControlPlane on paper: golden plans, and every object in them held against its schema.

mod ceph;
mod fields;
mod golden;
mod images;
mod mistakes;
mod paper;
mod passwords;
mod phases;
mod policies;
mod programs;
mod schemas;
mod templates;
