//! Random text through the compiled tokenizers and through the `tokenizers` crate: ids and decoded text are equal.
//!
//! `TOKENIZER_STRINGS` sets the number of strings per family (20,000 in release, 500 in debug builds).

use std::path::Path;
use tinyrustlm_cli::tokenizer::compile;
use tinyrustlm_core::tokenizer::{DecodeMode, Encode, Tokenizer};

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    fn char(&mut self) -> char {
        const RANGES: [(u32, u32); 18] = [
            (0x20, 0x7E),
            (0x61, 0x7A),
            (0x41, 0x5A),
            (0x30, 0x39),
            (0, 0x1F),
            (0x7F, 0xFF),
            (0x100, 0x24F),
            (0x300, 0x36F),
            (0x370, 0x52F),
            (0x590, 0x6FF),
            (0x900, 0x97F),
            (0x1100, 0x11FF),
            (0x2000, 0x206F),
            (0x3000, 0x30FF),
            (0x4E00, 0x4FFF),
            (0xAC00, 0xADFF),
            (0x1F300, 0x1F6FF),
            (0, 0x10FFFF),
        ];
        loop {
            let (low, high) = RANGES[self.below(RANGES.len())];
            let code = low + self.below((high - low + 1) as usize) as u32;
            if let Some(c) = char::from_u32(code) {
                return c;
            }
        }
    }

    fn text(&mut self, words: &[String]) -> String {
        const GLUE: [&str; 16] =
            ["", "", " ", " ", "  ", "\n", "\r\n", "\t", "▁", "-", "'", ".", "\u{a0}", "\u{301}", "\u{200d}", "12"];
        let mut text = String::new();
        for _ in 0..self.below(12) {
            match self.below(4) {
                0 => (0..self.below(6)).for_each(|_| text.push(self.char())),
                1 => {
                    let c = self.char();
                    (0..self.below(4)).for_each(|_| text.push(c));
                }
                _ => text.push_str(&words[self.below(words.len())]),
            }
            text.push_str(GLUE[self.below(GLUE.len())]);
        }
        text
    }
}

#[test]
fn random_text_equals_the_crate() {
    let default = if cfg!(debug_assertions) { 500 } else { 20_000 };
    let strings = std::env::var("TOKENIZER_STRINGS").ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/tokenizers");
    let mut families = 0;
    let mut wrong = Vec::new();
    for folder in std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let file = folder.join("tokenizer.json");
        if !file.exists() {
            continue;
        }
        families += 1;
        let json = std::fs::read(&file).unwrap();
        let reference = tokenizers::Tokenizer::from_bytes(&json).unwrap();
        let compiled = compile(&json).unwrap_or_else(|failure| panic!("{name}: {}", failure.message));
        let tokenizer = Tokenizer::parse(&compiled.section).unwrap();
        let mut words: Vec<String> = reference.get_vocab(true).into_keys().collect();
        words.sort();
        let visible: Vec<String> =
            words.iter().map(|w| w.replace(['Ġ', '▁'], " ").replace("##", "").replace("</w>", "")).collect();
        words.extend(visible);
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let mut out = vec![0; tokenizer.max_push_bytes()];
        let (mut scratch, mut ids) = (Vec::new(), Vec::new());
        for round in 0..strings {
            let text = random.text(&words);
            let special = round % 2 == 0;
            scratch.resize(tokenizer.scratch_words(text.len()), 0);
            ids.resize(tokenizer.max_ids(text.len()), 0);
            let how = Encode { add_special_tokens: special, content: None };
            let found = tokenizer.encode(text.as_bytes(), how, &mut scratch, &mut ids).map(|n| ids[..n].to_vec());
            let wanted = reference.encode_fast(text.as_str(), special).map(|e| e.get_ids().to_vec());
            if found.clone().ok() != wanted.as_ref().ok().cloned() {
                wrong.push(format!("{name}: {text:?}: {found:?}, the crate {wanted:?}"));
                continue;
            }
            let Ok(found) = found else { continue };
            for (mode, skip) in [(DecodeMode::Raw, false), (DecodeMode::Visible, true)] {
                // The crate's BPEDecoder panics where nothing is left to decode.
                if found.is_empty() {
                    continue;
                }
                let mut decoder = tokenizer.decoder(mode);
                let mut bytes = Vec::new();
                for id in &found {
                    let n = decoder.push(*id, &mut out).unwrap();
                    bytes.extend_from_slice(&out[..n]);
                }
                let n = decoder.finish(&mut out).unwrap();
                bytes.extend_from_slice(&out[..n]);
                let ours = String::from_utf8_lossy(&bytes).into_owned();
                let theirs = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| reference.decode(&found, skip)));
                if let Ok(Ok(theirs)) = theirs
                    && ours != theirs
                {
                    wrong.push(format!("{name}: {found:?}: {ours:?}, the crate {theirs:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} mismatches:\n{}", wrong.len(), wrong[..wrong.len().min(30)].join("\n"));
    assert!(families >= 20, "{families} families");
}
