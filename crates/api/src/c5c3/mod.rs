//! `c5c3.io`: the ControlPlane that everything starts from, and the two kinds that look after its credentials.

mod control_plane;
mod credential_rotation;
mod global;
mod identity;
mod infrastructure;
mod projection;
mod rules;
mod secret_aggregate;
mod services;
mod status;
mod template;

pub use control_plane::*;
pub use credential_rotation::*;
pub use global::*;
pub use identity::*;
pub use infrastructure::*;
pub use rules::*;
pub use secret_aggregate::*;
pub use services::*;
pub use status::*;
pub use template::*;
