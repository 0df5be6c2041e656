//! Test material shared by the layers.

pub mod build;
mod container;
mod naive;
mod session;
