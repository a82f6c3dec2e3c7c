//! Static costs of CEL expressions, in the numbers of a real API server: cel-go's estimate with Kubernetes' costs for
//! its own functions. An estimate assumes the largest values that the schema allows, and where it sets no bound, those
//! that a request of 3 MiB could hold.

mod calls;
mod estimate;
mod size;

pub(super) use estimate::{Estimate, estimate};

#[cfg(test)]
mod tests;
