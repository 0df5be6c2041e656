//! What becomes of output whose reader has gone, as `head` goes.

use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn a_reader_that_goes_early_ends_the_program_quietly() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/models/tiny-f32.slm");
    let model = model.to_str().unwrap();
    for words in [[model, "--ids", "1,2"].as_slice(), &[model, "-p", "a b", "-n", "8"], &["--help"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tinyrustlm"))
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        assert!(output.status.success(), "{words:?}");
    }
}
