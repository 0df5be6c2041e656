//! Test material shared by the layers.

pub mod build;
mod container;
mod malformed;
mod naive;
mod session;
