//! Plans carried out against an API in memory, one apply at a time: what is written, what is left, what is deleted.

mod blocked;
mod cluster;
mod deletions;
mod fights;
mod ground;
mod job_order;
mod jobs;
mod leases;
mod plans;
mod reads;
mod steps;
mod writes;
