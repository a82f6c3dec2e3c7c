//! A pod's specification in the words of the CRI. Nothing here talks to anything.

pub(crate) mod container;
pub(crate) mod dns;
pub(crate) mod hosts;
pub(crate) mod resources;
pub(crate) mod sandbox;
pub(crate) mod security;
