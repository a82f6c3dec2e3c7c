//! Cortex objects: their plans, their life on a cluster with a real scheduler's part played by the test, and the weigher in Nova's image.

mod life;
mod plans;
mod weigher;
mod world;
