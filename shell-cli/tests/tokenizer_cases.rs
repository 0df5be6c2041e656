//! Small inputs that hurt users of similar software, each with the answer of the reference library.

use serde_json::{Value, json};
use tinyrustlm_cli::tokenizer::compile;
use tinyrustlm_core::tokenizer::{DecodeMode, Encode, Tokenizer};

/// Encodes and gives the tokens' bytes as text, or the error's number.
fn pieces(tokenizer_json: &Value, text: &str) -> Vec<String> {
    let section = compile(tokenizer_json.to_string().as_bytes()).unwrap_or_else(|f| panic!("{}", f.message)).section;
    let tokenizer = Tokenizer::parse(&section).unwrap();
    let mut scratch = vec![0; tokenizer.scratch_words(text.len())];
    let mut ids = vec![0; tokenizer.max_ids(text.len())];
    match tokenizer.encode(text.as_bytes(), Encode::default(), &mut scratch, &mut ids) {
        Ok(count) => {
            ids[..count].iter().map(|id| String::from_utf8_lossy(tokenizer.token_bytes(*id)).into_owned()).collect()
        }
        Err(error) => vec![format!("error {}", error.number())],
    }
}

fn decoded(tokenizer_json: &Value, ids: &[u32], mode: DecodeMode) -> Vec<String> {
    let section = compile(tokenizer_json.to_string().as_bytes()).unwrap_or_else(|f| panic!("{}", f.message)).section;
    let tokenizer = Tokenizer::parse(&section).unwrap();
    let mut out = vec![0; tokenizer.max_push_bytes()];
    let mut decoder = tokenizer.decoder(mode);
    let mut parts: Vec<String> = Vec::new();
    for id in ids {
        let count = decoder.push(*id, &mut out).unwrap();
        parts.push(std::str::from_utf8(&out[..count]).unwrap().to_owned());
    }
    let count = decoder.finish(&mut out).unwrap();
    parts.push(std::str::from_utf8(&out[..count]).unwrap().to_owned());
    parts
}

fn bpe(vocab: &[&str], merges: &[[&str; 2]]) -> Value {
    let vocab: serde_json::Map<String, Value> =
        vocab.iter().enumerate().map(|(i, t)| ((*t).to_owned(), i.into())).collect();
    json!({"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": vocab, "merges": merges}})
}

fn added(content: &str, id: u32, flags: &[&str]) -> Value {
    let on = |name: &str| flags.contains(&name);
    json!({"id": id, "content": content, "single_word": on("single_word"), "lstrip": on("lstrip"), "rstrip": on("rstrip"),
        "normalized": on("normalized"), "special": on("special")})
}

/// A tokenizer that only cuts: every ASCII character and a few others are tokens, and pieces come out joined.
fn cuts(pre_tokenizer: Value, text: &str) -> Vec<String> {
    let model = json!({"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"});
    let json = json!({"version": "1.0", "added_tokens": [], "pre_tokenizer": pre_tokenizer, "model": model});
    let section = compile(json.to_string().as_bytes()).unwrap_or_else(|f| panic!("{}", f.message)).section;
    let tokenizer = Tokenizer::parse(&section).unwrap();
    let mut out = Vec::new();
    let mut scratch = vec![0; tokenizer.scratch_words(text.len())];
    let mut ids = vec![0; tokenizer.max_ids(text.len())];
    let mut observe = |stage: tinyrustlm_core::tokenizer::Stage<'_>| {
        if let tinyrustlm_core::tokenizer::Stage::Piece(piece, _) = stage {
            out.push(String::from_utf8_lossy(piece).into_owned());
        }
    };
    let how = Encode::default();
    tokenizer.encode_observed(text.as_bytes(), how, &mut scratch, &mut ids, &mut observe).unwrap();
    out
}

fn regex(pattern: &str, behavior: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": false})
}

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

#[test]
fn whole_pieces_win_over_merges_when_the_model_says_so() {
    let mut json = bpe(&["a", "b", "c", "d", "ab", "abcd"], &[["a", "b"]]);
    assert_eq!(pieces(&json, "abcd"), ["ab", "c", "d"]);
    json["model"]["ignore_merges"] = true.into();
    assert_eq!(pieces(&json, "abcd"), ["abcd"]);
}

#[test]
fn split_patterns_keep_their_order_and_look_ahead() {
    let l3 = |text: &str| cuts(regex(LLAMA3, "Isolated"), text);
    let g2 = |text: &str| cuts(regex(GPT2, "Isolated"), text);
    assert_eq!(l3("a\r\n\r\nb"), ["a", "\r\n\r\n", "b"]);
    assert_eq!(l3("!!!\n\nhi"), ["!!!\n\n", "hi"]);
    assert_eq!(g2("a\r\n\r\nb"), ["a", "\r\n\r", "\n", "b"]);
    assert_eq!(g2("!!!\n\nhi"), ["!!!", "\n", "\n", "hi"]);
    assert_eq!(l3("a   b"), ["a", "  ", " b"]);
    assert_eq!(g2("a   b"), ["a", "  ", " b"]);
    assert_eq!(g2("x\t\ty"), ["x", "\t", "\t", "y"]);
    assert_eq!(l3("x\t\ty"), ["x", "\t", "\ty"]);
    assert_eq!(l3("  \n\n b"), ["  \n\n", " b"]);
    assert_eq!(g2("  \n\n b"), ["  \n\n", " b"]);
    assert_eq!(l3("12345 1234"), ["123", "45", " ", "123", "4"]);
}

#[test]
fn string_patterns_are_literal_and_behaviours_differ() {
    let literal = json!({"type": "Split", "pattern": {"String": "\\d+"}, "behavior": "Isolated", "invert": false});
    assert_eq!(cuts(literal, "a12\\d+b"), ["a12", "\\d+", "b"]);
    let text = "the-final--countdown";
    let by = |behavior: &str| cuts(regex("-", behavior), text);
    assert_eq!(by("Removed"), ["the", "final", "countdown"]);
    assert_eq!(by("Isolated"), ["the", "-", "final", "-", "-", "countdown"]);
    assert_eq!(by("MergedWithPrevious"), ["the-", "final-", "-", "countdown"]);
    assert_eq!(by("MergedWithNext"), ["the", "-final", "-", "-countdown"]);
    assert_eq!(by("Contiguous"), ["the", "-", "final", "--", "countdown"]);
}

#[test]
fn unknown_characters_become_bytes_one_token_or_nothing() {
    let byte_pieces: Vec<String> = (0..256).map(|b| format!("<0x{b:02X}>")).collect();
    let vocab: Vec<&str> = ["a", "b", "c"].into_iter().chain(byte_pieces.iter().map(String::as_str)).collect();
    let mut json = bpe(&vocab, &[]);
    json["model"]["byte_fallback"] = true.into();
    let wanted = ["a", "<0xC3>", "<0xA9>", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "<0x0A>"];
    assert_eq!(pieces(&json, "aé😀\n"), wanted);

    let mut json = bpe(&["<unk>", "a", "b"], &[]);
    assert_eq!(pieces(&json, "axyb"), ["a", "b"]);
    json["model"]["unk_token"] = "<unk>".into();
    assert_eq!(pieces(&json, "axyb z"), ["a", "<unk>", "<unk>", "b", "<unk>", "<unk>"]);
    json["model"]["fuse_unk"] = true.into();
    assert_eq!(pieces(&json, "axyb z"), ["a", "<unk>", "b", "<unk>"]);
    json["model"]["unk_token"] = "[none]".into();
    assert_eq!(pieces(&json, "axyb"), ["error 111"]);
}

#[test]
fn normal_forms_do_what_they_say_and_no_more() {
    let vocab = ["é", "각", "Å", "ﬁ", " ", "①", "Ａ", "fi", "f", "i", "1", "A"];
    let mut json = bpe(&vocab, &[["f", "i"]]);
    let text = "e\u{301}\u{1100}\u{1161}\u{11a8}\u{212b}ﬁ ① Ａ";
    json["normalizer"] = json!({"type": "NFC"});
    assert_eq!(pieces(&json, text), ["é", "각", "Å", "ﬁ", " ", "①", " ", "Ａ"]);
    json["normalizer"] = json!({"type": "NFKC"});
    assert_eq!(pieces(&json, text), ["é", "각", "Å", "fi", " ", "1", " ", "A"]);
}

#[test]
fn merges_go_by_rank_then_from_the_left() {
    assert_eq!(pieces(&bpe(&["a", "b", "c", "bc", "ab"], &[["b", "c"], ["a", "b"]]), "abc"), ["a", "bc"]);
    assert_eq!(pieces(&bpe(&["a", "aa", "aaa"], &[["a", "a"], ["aa", "a"]]), "aaaaa"), ["aa", "aaa"]);
    assert_eq!(pieces(&bpe(&["a", "aa", "aaaa"], &[["a", "a"], ["aa", "aa"]]), "aaaaaaa"), ["aaaa", "aa", "a"]);
    // Parts with blanks, in the form of pairs.
    assert_eq!(pieces(&bpe(&["a", " ", "b", "a ", "a b"], &[["a", " "], ["a ", "b"]]), "a b"), ["a b"]);
}

#[test]
fn the_best_path_keeps_the_first_of_equals() {
    let unigram = |vocab: Value| json!({"version": "1.0", "added_tokens": [], "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab}});
    let one = unigram(json!([["<unk>", 0.0], ["a", -1.0], ["b", -1.0], ["c", -1.0], ["ab", -2.0], ["abc", -2.5]]));
    assert_eq!(pieces(&one, "ab"), ["ab"]);
    assert_eq!(pieces(&one, "abc"), ["abc"]);
    assert_eq!(pieces(&one, "axxb"), ["a", "<unk>", "b"]);
    assert_eq!(pieces(&unigram(json!([["<unk>", 0.0], ["aa", -1.0], ["a", -1.0]])), "aaa"), ["a", "aa"]);
}

#[test]
fn added_tokens_follow_their_flags() {
    let mut json = bpe(&["a", "b", " ", "\t", "\n", "\u{a0}", "\u{200b}", "x", "c"], &[]);
    let mut with = |tokens: &[(&str, &[&str])], text: &str| {
        let list = tokens.iter().enumerate().map(|(i, (t, flags))| added(t, 9 + i as u32, flags));
        json["added_tokens"] = list.collect();
        pieces(&json, text)
    };
    assert_eq!(with(&[("<m>", &["lstrip"])], "a\u{a0}\t\n<m>b"), ["a", "<m>", "b"]);
    assert_eq!(with(&[("<m>", &["lstrip"])], "a\u{200b}<m>"), ["a", "\u{200b}", "<m>"]);
    assert_eq!(with(&[("<m>", &["lstrip"])], "a  <m>  b"), ["a", "<m>", " ", " ", "b"]);
    assert_eq!(with(&[("<m>", &["rstrip"])], "a  <m>  b"), ["a", " ", " ", "<m>", "b"]);
    assert_eq!(with(&[("<m>", &["single_word"])], "a<m> <m> <m>b"), ["a", " ", "<m>", " ", "b"]);
    let overlapping: [(&str, &[&str]); 4] = [("<a", &[]), ("<a>", &[]), ("<a>b", &[]), ("a>bc", &[])];
    assert_eq!(with(&overlapping, "<a>bc"), ["<a>b", "c"]);
    assert_eq!(with(&overlapping, "<a>c"), ["<a>", "c"]);
    assert_eq!(with(&overlapping, "x<ab"), ["x", "<a", "b"]);
}

#[test]
fn normalised_tokens_are_found_in_normalised_text() {
    let mut json = bpe(&["a", " ", "n", "o"], &[]);
    json["normalizer"] = json!({"type": "Lowercase"});
    json["added_tokens"] =
        json!([added("YES", 4, &["normalized"]), added("No", 5, &[]), added("maybe", 6, &["normalized"])]);
    let count = |text: &str| pieces(&json, text).len();
    assert_eq!(count("YES yes Yes"), 5);
    assert_eq!(count("No no NO"), 1 + 1 + 2 + 1 + 2);
    assert_eq!(count("Maybe MAYBE"), 3);
}

#[test]
fn declared_ids_give_way_to_the_ids_the_reference_gives() {
    let mut json = bpe(&["a"], &[]);
    json["added_tokens"] = json!([added("<x>", 999, &["special"])]);
    let compiled = compile(json.to_string().as_bytes()).unwrap();
    assert_eq!((compiled.vocab_size, &compiled.receipt["moved_ids"]), (2, &json!([["<x>", 999, 1]])));
}

#[test]
fn text_comes_out_in_whole_characters() {
    let byte_level = |c: u8| match c {
        0xA1..=0xAC | 0xAE..=0xFF | b'!'..=b'~' => char::from(c),
        0..=0x20 => char::from_u32(256 + u32::from(c)).unwrap(),
        0x7F..=0xA0 => char::from_u32(256 + 33 + u32::from(c - 0x7F)).unwrap(),
        0xAD => char::from_u32(256 + 67).unwrap(),
    };
    let tokens: Vec<String> = [&[0xF0, 0x9F][..], &[0x98, 0x80], &[0xE5], &[0x8F, 0xAB], &[0xEF, 0xBF, 0xBD], &[0xFF]]
        .iter()
        .map(|bytes| bytes.iter().map(|b| byte_level(*b)).collect())
        .collect();
    let vocab: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let mut json = bpe(&vocab, &[]);
    json["decoder"] = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    json["added_tokens"] = json!([added("<|e|>", 6, &["special"]), added("é€", 7, &[])]);
    assert_eq!(decoded(&json, &[0, 1], DecodeMode::Raw), ["", "😀", ""]);
    assert_eq!(decoded(&json, &[0, 1, 0], DecodeMode::Raw), ["", "😀", "", "\u{FFFD}"]);
    assert_eq!(decoded(&json, &[4, 2], DecodeMode::Raw), ["\u{FFFD}", "", "\u{FFFD}"]);
    assert_eq!(decoded(&json, &[5, 5], DecodeMode::Raw), ["\u{FFFD}", "\u{FFFD}", ""]);
    assert_eq!(decoded(&json, &[2, 6, 3], DecodeMode::Visible).concat(), "叫");
    assert_eq!(decoded(&json, &[2, 6, 3], DecodeMode::Raw).concat(), "\u{FFFD}<|e|>\u{FFFD}\u{FFFD}");
    assert_eq!(decoded(&json, &[7, 77], DecodeMode::Raw).concat(), "é€");
}

#[test]
fn blanks_are_stripped_once_at_the_start_of_the_whole() {
    let byte_pieces: Vec<String> = (0..256).map(|b| format!("<0x{b:02X}>")).collect();
    let vocab: Vec<&str> =
        ["<s>", "</s>", "▁hi", "▁a", "▁"].into_iter().chain(byte_pieces.iter().map(String::as_str)).collect();
    let mut json = bpe(&vocab, &[]);
    json["model"]["byte_fallback"] = true.into();
    json["added_tokens"] = json!([added("<s>", 0, &["special"]), added("</s>", 1, &["special"])]);
    json["decoder"] = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]});
    assert_eq!(decoded(&json, &[2, 3], DecodeMode::Raw), ["hi", " a", ""]);
    assert_eq!(decoded(&json, &[0, 2], DecodeMode::Raw).concat(), "<s> hi");
    assert_eq!(decoded(&json, &[0, 2], DecodeMode::Visible).concat(), "hi");
    assert_eq!(decoded(&json, &[2, 1, 2], DecodeMode::Raw).concat(), "hi</s> hi");
    assert_eq!(decoded(&json, &[2, 1, 2], DecodeMode::Visible).concat(), "hi hi");
    // A run of byte tokens is a character once it has ended, or one U+FFFD a byte.
    let byte = |b: u8| 5 + u32::from(b);
    assert_eq!(decoded(&json, &[2, 4, byte(0xEA), byte(0xB9), byte(0xB0)], DecodeMode::Raw).concat(), "hi 깰");
    let cut = [byte(0xF0), byte(0x9F), byte(0x98)];
    assert_eq!(decoded(&json, &cut, DecodeMode::Raw), ["", "", "", "\u{FFFD}\u{FFFD}\u{FFFD}"]);
    assert_eq!(decoded(&json, &[cut[0], 2], DecodeMode::Raw), ["", "\u{FFFD} hi", ""]);
}
