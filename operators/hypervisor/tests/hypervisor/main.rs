//! The lives of hypervisors on a whole API server, with a Nova and a Placement that keep their state and fail as told.

mod drains;
mod drift;
mod kills;
mod left_alone;
mod lives;
mod many;
mod openstack;
mod races;
mod rights;
mod rolling;
mod site;
