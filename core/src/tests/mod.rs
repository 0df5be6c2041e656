//! Test material shared by the layers.

pub mod build;
mod container;
mod kernels;
mod malformed;
pub mod naive;
mod session;
