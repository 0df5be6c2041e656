//! The operators. They know slices and lanes, not models; each is written once over
//! [`Lanes`](crate::kernels::Lanes), so that all backends give the same bits.

pub mod activation;
pub mod attention;
pub(crate) mod code_attention;
pub mod embed;
pub mod math;
pub mod residual;
pub mod rms_norm;
pub mod rope;
