//! Ctrl-C: ends a reply that is being written; else the program.

use std::sync::atomic::{AtomicBool, Ordering};

static REPLYING: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicBool = AtomicBool::new(false);

/// Exit code of a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// From here on Ctrl-C means this. Where the system has no such thing, it ends the program as always.
pub fn install() {
    let _ = ctrlc::set_handler(|| {
        // A second one does not wait for the step under way.
        if !REPLYING.load(Ordering::SeqCst) || ASKED.swap(true, Ordering::SeqCst) {
            std::process::exit(INTERRUPTED);
        }
    });
}

/// A reply begins or has ended.
pub fn replying(on: bool) {
    ASKED.store(false, Ordering::SeqCst);
    REPLYING.store(on, Ordering::SeqCst);
}

/// Whether the reply shall end.
pub fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}
