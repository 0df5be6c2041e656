//! Encoding and decoding speed beside the `tokenizers` crate, one thread, in the same run.
//!
//!     cargo run --release -p tinyrustlm-benches --bin tokenizer -- FOLDER...
//!
//! FOLDER holds a `tokenizer.json`; without one, those of `fixtures/tokenizers` are taken. Each row is the best of interleaved
//! runs; every row's ids are compared first.

use std::path::{Path, PathBuf};
use tinyrustlm_benches::{Table, timed};
use tinyrustlm_cli::tokenizer::compile;
use tinyrustlm_core::tokenizer::{DecodeMode, Encode, Tokenizer};

fn sources(dir: &Path, ending: &str, out: &mut String) {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            sources(&path, ending, out);
        } else if path.extension().is_some_and(|e| e == ending) {
            out.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

fn texts() -> Vec<(&'static str, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut code = String::new();
    sources(&root.join("core/src"), "rs", &mut code);
    sources(&root.join("shell-cli/src"), "rs", &mut code);
    let prose = std::fs::read_to_string(root.join("SPEC.md")).unwrap_or_default()
        + &std::fs::read_to_string(root.join("README.md")).unwrap_or_default();
    // Prose is what a documentation says between its tables and listings.
    let english: String =
        prose.lines().filter(|l| !l.starts_with(['|', ' ', '#', '`'])).map(|l| format!("{l}\n")).collect();
    let mut seed = 1u32;
    let mut next = |n: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % n
    };
    let cjk: String = (0..120_000)
        .map(|_| match next(20) {
            0 => '。',
            1 => '，',
            2..5 => char::from_u32(0x3042 + next(80)).unwrap_or('の'),
            _ => char::from_u32(0x4E00 + next(400) * next(40)).unwrap_or('日'),
        })
        .collect();
    let emoji: String = (0..100_000).map(|_| char::from_u32(0x1F600 + next(64)).unwrap_or('🙂')).collect();
    vec![
        ("english", english.chars().take(200_000).collect()),
        ("code", code.chars().take(400_000).collect()),
        ("cjk", cjk),
        ("1 MB of a", "a".repeat(1 << 20)),
        ("1 MB of blanks", " ".repeat(1 << 20)),
        ("100k emoji", emoji),
    ]
}

fn best(times: &mut f64, f: impl FnOnce()) {
    *times = times.min(timed(f).0);
}

fn main() {
    let given: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    let folders = if given.is_empty() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/tokenizers");
        ["gpt2", "qwen2", "llama2", "bert-uncased", "unigram"].iter().map(|name| root.join(name)).collect()
    } else {
        given
    };
    let rounds: usize = std::env::var("ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let columns =
        [("tokenizer", 24), ("text", 16), ("MB/s", 10), ("crate", 10), ("x", 7), ("decode MB/s", 12), ("crate", 12)];
    let table = Table::new(&columns);
    for folder in folders {
        let json = std::fs::read(folder.join("tokenizer.json")).expect("a folder with tokenizer.json");
        let reference = tokenizers::Tokenizer::from_bytes(&json).expect("the crate reads it");
        let (compile_time, compiled) = timed(|| compile(&json));
        let compiled = compiled.unwrap_or_else(|failure| panic!("{}", failure.message));
        let tokenizer = Tokenizer::parse(&compiled.section).expect("a valid section");
        let name = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        println!("{name}: section {} bytes, compiled in {compile_time:.2} s", compiled.section.len());
        for (text_name, text) in texts() {
            let mut scratch = vec![0; tokenizer.scratch_words(text.len())];
            let mut ids = vec![0; tokenizer.max_ids(text.len())];
            let mut out = vec![0; tokenizer.max_push_bytes()];
            let mut count = 0;
            let (mut ours, mut theirs, mut our_decode, mut their_decode) = (f64::MAX, f64::MAX, f64::MAX, f64::MAX);
            let mut wanted = Vec::new();
            for _ in 0..rounds {
                best(&mut ours, || {
                    count =
                        tokenizer.encode(text.as_bytes(), Encode::default(), &mut scratch, &mut ids).expect("encodes");
                });
                best(&mut theirs, || {
                    wanted = reference.encode_fast(text.as_str(), false).expect("encodes").get_ids().to_vec();
                });
                best(&mut our_decode, || {
                    let mut decoder = tokenizer.decoder(DecodeMode::Raw);
                    for id in &ids[..count] {
                        decoder.push(*id, &mut out).expect("fits");
                    }
                    decoder.finish(&mut out).expect("fits");
                });
                best(&mut their_decode, || {
                    std::hint::black_box(reference.decode(&wanted, false).expect("decodes"));
                });
            }
            assert_eq!(ids[..count], wanted[..], "{name} on {text_name}");
            let rate = |time: f64| text.len() as f64 / time / 1e6;
            let figures = [rate(ours), rate(theirs), theirs / ours, rate(our_decode), rate(their_decode)];
            let figures = figures.map(|figure| format!("{figure:.1}"));
            table.row([name.clone(), text_name.to_owned()].into_iter().chain(figures));
        }
        // Growth: the time per byte of ever longer texts.
        let base = texts().swap_remove(0).1;
        let mut line = format!("{name:<24} growth ");
        for size in [1usize << 10, 10 << 10, 100 << 10, 1 << 20, 10 << 20] {
            let text: String = base.chars().cycle().take(size).collect();
            let mut scratch = vec![0; tokenizer.scratch_words(text.len())];
            let mut ids = vec![0; tokenizer.max_ids(text.len())];
            let mut time = f64::MAX;
            for _ in 0..rounds {
                best(&mut time, || {
                    tokenizer.encode(text.as_bytes(), Encode::default(), &mut scratch, &mut ids).expect("encodes");
                });
            }
            line += &format!("  {} KB {:.1} ns/B", size >> 10, time * 1e9 / text.len() as f64);
        }
        println!("{line}");
    }
}
