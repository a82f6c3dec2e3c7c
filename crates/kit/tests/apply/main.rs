//! Plans carried out against an API in memory, one apply at a time: what is written, what is left, what is deleted.

mod cluster;
mod ground;
mod jobs;
mod steps;
mod writes;
