//! `c5c3.io`: the ControlPlane that everything starts from, and the two kinds that look after its credentials.

mod control_plane;
mod credential_rotation;
mod identity;
mod infrastructure;
mod secret_aggregate;
mod services;

pub use control_plane::*;
pub use credential_rotation::*;
pub use identity::*;
pub use infrastructure::*;
pub use secret_aggregate::*;
pub use services::*;
