//! Nova's resources, as far as operators act on them.

pub mod evacuation;
pub mod guest;
