//! Events for a log on bare metal: with the feature `defmt` a frame each, without it nothing at all. Numbers only, so
//! that no formatting code is linked.

/// `event!("positions {=u32}", n)`, at defmt's info level.
macro_rules! event {
    ($format:literal $(, $value:expr)*) => {
        #[cfg(feature = "defmt")]
        defmt::info!($format $(, $value)*);
    };
}

pub(crate) use event;
