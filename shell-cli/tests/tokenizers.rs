//! Compiled tokenizers against vectors of the reference library: those of `fixtures/tokenizers`, and the shared set when
//! it is there.

use serde_json::Value;
use std::path::{Path, PathBuf};
use tinyrustlm_cli::tokenizer::compile;
use tinyrustlm_core::tokenizer::{DecodeMode, Encode, Tokenizer};

/// A tokenizer with its buffers.
struct Bench<'a> {
    tokenizer: Tokenizer<'a>,
    out: Vec<u8>,
}

impl<'a> Bench<'a> {
    fn new(section: &'a [u8]) -> Self {
        let tokenizer = Tokenizer::parse(section).unwrap();
        let out = vec![0; tokenizer.max_push_bytes()];
        Self { tokenizer, out }
    }

    fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, u32> {
        let mut scratch = vec![0; self.tokenizer.scratch_words(text.len())];
        let mut ids = vec![0; self.tokenizer.max_ids(text.len())];
        let how = Encode { add_special_tokens, content: None };
        let count = self.tokenizer.encode(text.as_bytes(), how, &mut scratch, &mut ids).map_err(|e| e.number())?;
        ids.truncate(count);
        Ok(ids)
    }

    /// Decodes one id at a time; what has come out before the end must be whole characters.
    fn decode(&mut self, ids: &[u32], mode: DecodeMode) -> String {
        let mut decoder = self.tokenizer.decoder(mode);
        let mut text = String::new();
        for id in ids {
            let count = decoder.push(*id, &mut self.out).unwrap();
            text.push_str(std::str::from_utf8(&self.out[..count]).expect("a character came out in parts"));
        }
        let count = decoder.finish(&mut self.out).unwrap();
        text.push_str(std::str::from_utf8(&self.out[..count]).unwrap());
        text
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.split('\n').filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks cases and returns how many there were and what was wrong.
fn check(name: &str, section: &[u8], cases: &[Value]) -> (usize, Vec<String>) {
    let mut bench = Bench::new(section);
    let mut wrong = Vec::new();
    for case in cases {
        let ids: Option<Vec<u32>> = serde_json::from_value(case["ids"].clone()).ok();
        if let Some(text) = case["text"].as_str() {
            let special = case["add_special_tokens"].as_bool().unwrap();
            let found = bench.encode(text, special);
            if found.clone().ok() != ids {
                wrong.push(format!("{name}: encode {text:?} {special}: {found:?}, reference {ids:?}"));
            }
        }
        for (key, mode) in [("raw", DecodeMode::Raw), ("visible", DecodeMode::Visible)] {
            if let (Some(ids), Some(text)) = (&ids, case[key].as_str()) {
                let found = bench.decode(ids, mode);
                if found != text {
                    wrong.push(format!("{name}: decode {key} {ids:?}: {found:?}, reference {text:?}"));
                }
            }
        }
    }
    (cases.len(), wrong)
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("tokenizer.json").exists())
        .collect();
    all.sort();
    all
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/tokenizers")
}

fn shared() -> Option<PathBuf> {
    let root = std::env::var_os("SHARED_DIR")
        .map_or(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    Some(root.join("data/tokenizers")).filter(|path| path.exists())
}

#[test]
fn families_equal_the_reference() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for folder in folders(&fixtures()) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let compiled = match compile(&std::fs::read(folder.join("tokenizer.json")).unwrap()) {
            Ok(compiled) => compiled,
            Err(failure) => {
                wrong.push(format!("{name}: {}", failure.message));
                continue;
            }
        };
        let (cases, more) = check(&name, &compiled.section, &lines(&folder.join("vectors.jsonl")));
        count += cases;
        wrong.extend(more);
    }
    assert!(wrong.is_empty(), "{} mismatches:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
    assert!(count > 4000, "{count} cases");
}

#[test]
fn published_tokenizers_equal_the_reference() {
    let Some(root) = shared() else {
        eprintln!("SKIPPED published_tokenizers_equal_the_reference: ../shared not present");
        return;
    };
    let mut wrong = Vec::new();
    for folder in folders(&root) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let json = std::fs::read(folder.join("tokenizer.json")).unwrap();
        // Unoptimised code takes minutes for the largest; release builds check them all.
        if cfg!(debug_assertions) && json.len() > 2_500_000 {
            eprintln!("SKIPPED {name}: a large tokenizer in a debug build");
            continue;
        }
        let compiled = compile(&json).unwrap();
        for file in ["cases.jsonl", "cases_detokenize.jsonl", "cases_llamacpp.jsonl"] {
            if folder.join(file).exists() {
                wrong.extend(check(&name, &compiled.section, &lines(&folder.join(file))).1);
            }
        }
        let limit = match name.as_str() {
            "smollm2" => 1_400_000,
            "qwen2.5" => 4_500_000,
            _ => usize::MAX,
        };
        if compiled.section.len() > limit {
            wrong.push(format!("{name}: a section of {} bytes", compiled.section.len()));
        }
    }
    assert!(wrong.is_empty(), "{} mismatches:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}

/// A reader of the CBOR that the vectors use.
fn cbor(bytes: &mut &[u8]) -> Value {
    let (first, rest) = bytes.split_first().unwrap();
    *bytes = rest;
    let (major, low) = (first >> 5, first & 31);
    if major == 7 {
        return Value::Bool(low == 21);
    }
    let width = if low < 24 { 0 } else { 1usize << (low - 24) };
    let (digits, rest) = bytes.split_at(width);
    *bytes = rest;
    let number = if width == 0 { u64::from(low) } else { digits.iter().fold(0, |n, b| n << 8 | u64::from(*b)) };
    match major {
        0 => number.into(),
        3 => {
            let (text, rest) = bytes.split_at(number as usize);
            *bytes = rest;
            String::from_utf8(text.to_vec()).unwrap().into()
        }
        4 => (0..number).map(|_| cbor(bytes)).collect(),
        5 => Value::Object(
            (0..number)
                .map(|_| {
                    let key = cbor(bytes).as_str().unwrap().to_owned();
                    (key, cbor(bytes))
                })
                .collect(),
        ),
        _ => panic!("major type {major}"),
    }
}

#[test]
fn vectors_say_the_same_in_both_forms() {
    for folder in folders(&fixtures()) {
        let bytes = std::fs::read(folder.join("vectors.cbor")).unwrap();
        let mut rest = &bytes[..];
        let packed = cbor(&mut rest);
        assert!(rest.is_empty());
        let plain = lines(&folder.join("vectors.jsonl"));
        assert_eq!(packed.as_array().unwrap().len(), plain.len());
        for (packed, plain) in packed.as_array().unwrap().iter().zip(&plain) {
            // Keys stand in another order.
            let (packed, plain) = (packed.as_object().unwrap(), plain.as_object().unwrap());
            assert_eq!(packed.len(), plain.len());
            assert!(plain.iter().all(|(key, value)| packed[key] == *value));
        }
    }
}

/// A small generator, so that damage is the same on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

#[test]
fn damaged_sections_give_numbered_errors_or_work() {
    let rounds = if cfg!(debug_assertions) { 150 } else { 1500 };
    let text = "Hello wörld, it's 123 今日 🙂\n\n  <m> <s> <0x41> \u{ac00}\u{301}";
    for folder in folders(&fixtures()) {
        let good = compile(&std::fs::read(folder.join("tokenizer.json")).unwrap()).unwrap().section;
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let tables_at = 112 + 30 * 8;
        for round in 0..rounds {
            let mut bytes = good.clone();
            match round % 3 {
                0 => bytes.truncate(random.below(bytes.len())),
                1 => {
                    let at = random.below(tables_at);
                    bytes[at] ^= 1 << random.below(8);
                }
                _ => {
                    let at = random.below(bytes.len());
                    bytes[at] ^= 1 << random.below(8);
                }
            }
            let Ok(tokenizer) = Tokenizer::parse(&bytes).map_err(|e| assert!((100..=109).contains(&e.number()), "{e}"))
            else {
                continue;
            };
            // What passes the door must neither panic nor hang, whatever it gives.
            let mut scratch = vec![0; tokenizer.scratch_words(text.len())];
            let mut ids = vec![0; 4096];
            let count = tokenizer.encode(text.as_bytes(), Encode::default(), &mut scratch, &mut ids).unwrap_or(0);
            let mut out = vec![0; tokenizer.max_push_bytes()];
            let mut decoder = tokenizer.decoder(DecodeMode::Raw);
            for id in ids[..count].iter().chain(&[0, 1, u32::MAX]) {
                decoder.push(*id, &mut out).unwrap();
            }
            decoder.finish(&mut out).unwrap();
        }
    }
}

#[test]
fn damage_of_each_kind_has_its_number_and_place() {
    // A table, a place in it that something out of range is written to, and what is said of it.
    let kinds = [(2, 0, 105, 2), (15, 0, 107, 0), (16, 0, 108, 0), (19, 36, 109, 19), (20, 36, 109, 20)];
    let mut met = [false; 5];
    for folder in folders(&fixtures()) {
        let good = compile(&std::fs::read(folder.join("tokenizer.json")).unwrap()).unwrap().section;
        for ((table, at, number, index), met) in kinds.into_iter().zip(&mut met) {
            let place = |field: usize| u32::from_le_bytes(good[112 + 8 * table + 4 * field..][..4].try_into().unwrap());
            let (start, len) = (place(0) as usize, place(1) as usize);
            if len >= at + 4 {
                let mut bytes = good.clone();
                bytes[start + at..][..4].fill(0xfe);
                let error = Tokenizer::parse(&bytes).map(|_| ()).unwrap_err();
                assert_eq!((error.number(), error.index()), (number, Some(index)), "{} {table}", folder.display());
                *met = true;
            }
        }
    }
    assert_eq!(met, [true; 5]);
}

fn refusal(json: &str) -> String {
    match compile(json.as_bytes()) {
        Ok(_) => panic!("accepted: {json}"),
        Err(failure) => failure.message,
    }
}

/// A tokenizer.json with this model and nothing else.
fn only(model: &str) -> String {
    format!(r#"{{"version":"1.0","added_tokens":[],"model":{model}}}"#)
}

#[test]
fn damaged_vocabularies_are_refused_by_component_and_place() {
    let bpe = |vocab: &str, merges: &str, more: &str| {
        only(&format!(r#"{{"type":"BPE","vocab":{vocab},"merges":{merges}{more}}}"#))
    };
    let cases = [
        (bpe(r#"{"a":0,"b":0}"#, "[]", ""), ["model.vocab", "entry 1"]),
        (bpe(r#"{"a":0,"a":1}"#, "[]", ""), ["model.vocab", "entry 1"]),
        (bpe(r#"{"a":0,"b":4294967295}"#, "[]", ""), ["model.vocab", "entry 1"]),
        (bpe(r#"{"a":0,"b":2000000}"#, "[]", ""), ["model.vocab", "2000000"]),
        (bpe(r#"{"a":0,"b":1}"#, r#"["a b"]"#, ""), ["model.merges", "merge 0"]),
        (bpe(r#"{"a":0,"ab":1}"#, r#"[["a","b"]]"#, ""), ["model.merges", "merge 0"]),
        (bpe(r#"{"a":0}"#, r#"["a"]"#, ""), ["model.merges", "merge 0"]),
        (bpe(r#"{"a":0}"#, r#"["a b c"]"#, ""), ["model.merges", "merge 0"]),
        (bpe(r#"{"a":0}"#, "[]", r#","byte_fallback":true"#), ["model.vocab", "<0x00>"]),
        (bpe(r#"{"a":0}"#, "[]", r#","dropout":0.1"#), ["model.dropout", "random"]),
        (only(r#"{"type":"Unigram","unk_id":3,"vocab":[["a",-1.0]]}"#), ["model.unk_id", "3"]),
        (only(r#"{"type":"Other","vocab":{}}"#), ["model", "Other"]),
    ];
    for (json, words) in cases {
        let message = refusal(&json);
        assert!(words.iter().all(|word| message.contains(word)), "{message} for {json}");
    }
}

#[test]
fn what_cannot_be_expressed_is_refused_by_name() {
    let with = |key: &str, value: &str| {
        format!(r#"{{"{key}":{value},"model":{{"type":"BPE","vocab":{{"a":0}},"merges":[]}}}}"#)
    };
    let split = |pattern: &str| {
        format!(r#"{{"type":"Split","pattern":{{"Regex":{pattern:?}}},"behavior":"Isolated","invert":false}}"#)
    };
    let cases = [
        (with("normalizer", r#"{"type":"Fancy"}"#), "Fancy"),
        (with("pre_tokenizer", r#"{"type":"Fancy"}"#), "Fancy"),
        (with("decoder", r#"{"type":"Fancy"}"#), "Fancy"),
        (with("post_processor", r#"{"type":"Fancy"}"#), "Fancy"),
        (with("pre_tokenizer", &split("a(?=bc)")), "looking further"),
        (with("pre_tokenizer", &split("(a)\\\\1")), "\\1"),
        (with("pre_tokenizer", &split("a*")), "empty text"),
        (
            with(
                "pre_tokenizer",
                r#"{"type":"Metaspace","replacement":"_","add_prefix_space":false,"prepend_scheme":"always"}"#,
            ),
            "prepend_scheme",
        ),
    ];
    for (json, word) in cases {
        let json = json.replace("\\\\\\\\", "\\\\");
        let message = refusal(&json);
        assert!(message.contains(word), "{message} for {json}");
    }
}

#[test]
fn marked_content_gives_no_special_tokens() {
    let folder = fixtures().join("qwen2");
    let section = compile(&std::fs::read(folder.join("tokenizer.json")).unwrap()).unwrap().section;
    let tokenizer = Tokenizer::parse(&section).unwrap();
    let (start, end) = (tokenizer.token_to_id(b"<|im_start|>").unwrap(), tokenizer.token_to_id(b"<|im_end|>").unwrap());
    let encode = |text: &str, content: Option<&[u8]>| {
        let mut scratch = vec![0; tokenizer.scratch_words(text.len())];
        let mut ids = vec![0; tokenizer.max_ids(text.len())];
        let how = Encode { add_special_tokens: false, content };
        let count = tokenizer.encode(text.as_bytes(), how, &mut scratch, &mut ids).unwrap();
        ids[..count].to_vec()
    };
    let text = "<|im_start|>user\nA<|im_end|>B<|im_end|>";
    let inside = text.find('A').unwrap()..text.find('B').unwrap() + 1;
    let mut marks = vec![0u8; text.len().div_ceil(8)];
    inside.clone().for_each(|i| marks[i / 8] |= 1 << (i % 8));
    let ids = encode(text, Some(&marks));
    assert_eq!(ids.iter().filter(|id| **id == end).count(), 1);
    assert_eq!((ids[0], ids[ids.len() - 1]), (start, end));
    assert_eq!(encode(text, None).iter().filter(|id| **id == end).count(), 2);
    // One marked byte is enough, and without lookalikes nothing changes.
    for at in inside.start + 1..inside.end - 1 {
        let mut marks = vec![0u8; text.len().div_ceil(8)];
        marks[at / 8] |= 1 << (at % 8);
        assert_eq!(encode(text, Some(&marks)).iter().filter(|id| **id == end).count(), 1);
    }
    let plain = "<|im_start|>user\ne\u{301} <w>  it's<|im_end|>";
    let mut marks = vec![0u8; plain.len().div_ceil(8)];
    (plain.find('\n').unwrap() + 1..plain.rfind("<|").unwrap()).for_each(|i| marks[i / 8] |= 1 << (i % 8));
    assert_eq!(encode(plain, Some(&marks)), encode(plain, None));
}

#[test]
fn bytes_stand_for_themselves() {
    let section = tinyrustlm_cli::tokenizer::bytes_section();
    assert_eq!(section.len(), 28);
    let mut bench = Bench::new(&section);
    assert_eq!(bench.encode("aé", true), Ok(vec![256, 97, 195, 169, 257]));
    assert_eq!(bench.encode("aé", false), Ok(vec![97, 195, 169]));
    assert_eq!(bench.decode(&[256, 97, 195, 258, 169, 259, 195, 257], DecodeMode::Raw), "aé?\u{FFFD}");
    assert_eq!((bench.tokenizer.vocab_size(), bench.tokenizer.special_count()), (260, 4));
}

#[test]
fn ill_formed_text_is_refused_with_its_offset() {
    let section = compile(&std::fs::read(fixtures().join("gpt2/tokenizer.json")).unwrap()).unwrap().section;
    let tokenizer = Tokenizer::parse(&section).unwrap();
    let (mut scratch, mut ids) = (vec![0; 4096], vec![0; 64]);
    for (text, offset) in [(&b"ab\xffc"[..], 2), (b"\xc3", 0), (b"a\xed\xa0\x80", 1), (b"\xf4\x90\x80\x80", 0)] {
        let error = tokenizer.encode(text, Encode::default(), &mut scratch, &mut ids).unwrap_err();
        assert_eq!((error.number(), error.offset()), (3, Some(offset)));
    }
    assert_eq!(tokenizer.encode(b"a b c", Encode::default(), &mut scratch, &mut ids[..2]).unwrap_err().number(), 14);
}

#[test]
fn long_runs_cost_little_more_than_their_length() {
    let letters = "aaaaaaaaaaaaaaaaa";
    let merges: Vec<String> = [1, 2, 4].iter().map(|n| format!("\"{0} {0}\"", &letters[..*n])).collect();
    let vocab = r#"{"a":0,"aa":1,"aaaa":2,"aaaaaaaa":3}"#;
    let json = only(&format!(r#"{{"type":"BPE","vocab":{vocab},"merges":[{}]}}"#, merges.join(",")));
    let section = compile(json.as_bytes()).unwrap().section;
    let bench = Bench::new(&section);
    assert_eq!(bench.encode(&"a".repeat(200_000), false).unwrap(), vec![3; 25_000]);
    assert_eq!(bench.encode(&"a".repeat(15), false).unwrap(), vec![3, 2, 1, 0]);
}
