//! `slm run` and `slm chat` as programs, on models of a few kilobytes.

mod support;

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use support::options;
use tinyrustlm_cli::convert::Quant;

/// The byte tokenizer's end token.
const EOS: u64 = 257;

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/models/tiny-odd-q8_0.slm")
}

/// A model with a template, in a folder of its own.
static TALKING: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/families/llama_biases_linear");
    let file = dir.path().join("talking.slm");
    support::run(&options(&source, &file, Quant::Auto)).unwrap();
    (dir, file)
});

fn slm(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_slm"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that takes no input may be gone by now.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Exit code, stdout and stderr of `slm run` on the tiny model.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let model = tiny();
    let all: Vec<&str> = ["run", model.to_str().unwrap()].iter().chain(arguments).copied().collect();
    let output = slm(&all, "");
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn run_json(arguments: &[&str]) -> Value {
    let all: Vec<&str> = arguments.iter().chain(&["--json"]).copied().collect();
    let (code, out, err) = run(&all);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

/// The same of `slm chat`, with the lines of a dialogue.
fn chat(arguments: &[&str], lines: &[&str]) -> (i32, String, String) {
    let all: Vec<&str> = ["chat", TALKING.1.to_str().unwrap()].iter().chain(arguments).copied().collect();
    let output = slm(&all, &lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned(), text(&output.stderr))
}

#[test]
fn a_seed_decides_the_text_and_nothing_else_does() {
    let warm = ["-p", "Hello", "-n", "24", "--ignore-eos", "--temperature", "1.2", "--seed"];
    let with = |seed: &str, more: &[&str]| {
        let all: Vec<&str> = warm.iter().chain(&[seed]).chain(more).copied().collect();
        run_json(&all)["ids"].clone()
    };
    let first = with("7", &[]);
    assert_eq!(first.as_array().unwrap().len(), 24);
    assert_eq!(first, with("7", &[]));
    assert_eq!(first, with("7", &["--scalar", "--threads", "1"]));
    assert_eq!(first, with("7", &["--threads", "3", "--context", "64"]));
    assert_ne!(first, with("8", &[]));
    assert_ne!(first, with("7", &["--stream", "1"]));
    assert_ne!(first, with("7", &["--prng", "pcg32"]));
}

#[test]
fn generation_ends_for_the_reason_it_states() {
    let most = run_json(&["-p", "Hi", "-n", "3", "--ignore-eos"]);
    assert_eq!((most["ids"].as_array().unwrap().len(), most["stop_reason"].as_str()), (3, Some("max_output")));
    let eos = run_json(&["-p", "Hi", "--bias", "257=100000"]);
    assert_eq!((&eos["ids"], eos["stop_reason"].as_str()), (&serde_json::json!([EOS]), Some("eos_token")));
    assert_eq!(eos["text"], "");
    assert_eq!(eos["diagnostics"]["generation_stage"]["stop_reason"], "EOS_TOKEN");
    assert_eq!(eos["diagnostics"]["stop"]["token"], EOS);
    let late = run_json(&["-p", "Hi", "--bias", "257=100000", "--min-tokens", "4"]);
    assert_eq!(late["ids"].as_array().unwrap().len(), 5);
    let full = run_json(&["-p", "Hi", "--context", "8", "--ignore-eos"]);
    assert_eq!((full["ids"].as_array().unwrap().len(), full["stop_reason"].as_str()), (5, Some("context_full")));
    let id = run_json(&["-p", "Hi", "--bias", "65=100000", "--stop-id", "65"]);
    assert_eq!((&id["ids"], id["stop_reason"].as_str()), (&serde_json::json!([65]), Some("stop_token_id")));
    let looped = run_json(&["-p", "Hi", "--bias", "65=100000", "--stop-loops", "2:5"]);
    assert_eq!((looped["text"].as_str(), looped["stop_reason"].as_str()), (Some("AAAAA"), Some("loop_detected")));
}

#[test]
fn a_stop_text_is_hidden_unless_asked_for() {
    let stops = ["-p", "Hi", "--bias", "65=100000", "-n", "9", "--stop", "B", "--stop", "AAA"];
    let hidden = run_json(&stops);
    assert_eq!((hidden["text"].as_str(), hidden["stop_reason"].as_str()), (Some(""), Some("stop_string")));
    assert_eq!(hidden["ids"], serde_json::json!([65, 65, 65]));
    assert_eq!(hidden["diagnostics"]["stop"]["string"], serde_json::json!({"index": 1, "start": 0, "end": 3}));
    let all: Vec<&str> = stops.iter().chain(&["--include-stop"]).copied().collect();
    assert_eq!(run_json(&all)["text"], "AAA");
    let (code, out, _) = run(&["-p", "Hi", "--bias", "65=100000", "-n", "4", "--stop", "AAAAA"]);
    assert_eq!((code, out.as_str()), (0, "AAAA\n"), "what was held back comes out");
}

#[test]
fn explain_shows_a_table_or_steps() {
    let (code, out, err) =
        run(&["-p", "Hi", "-n", "2", "--ignore-eos", "--temperature", "0.9", "--top-k", "5", "--explain", "6"]);
    assert_eq!(code, 0);
    assert!(!out.contains("position"));
    assert_eq!(err.matches("position ").count(), 2, "{err}");
    assert_eq!(err.matches("\n  >").count(), 2, "one chosen row each: {err}");
    assert!(err.contains("probability") && err.contains("top_k") && err.contains("draw 0."), "{err}");
    let steps = run_json(&["-p", "Hi", "-n", "2", "--ignore-eos", "--explain", "6", "--logprobs", "3"]);
    assert_eq!(steps["steps"].as_array().unwrap().len(), 2);
    for step in steps["steps"].as_array().unwrap() {
        assert_eq!(step["candidates"].as_array().unwrap().len(), 6);
        assert_eq!(step["top"].as_array().unwrap().len(), 3);
        assert!(step["logprob"].as_f64().unwrap() <= 0.0);
    }
}

#[test]
fn diagnostics_have_every_field_of_the_report() {
    let d = &run_json(&["-p", "Hi \"\\\u{1}é", "-n", "3", "--ignore-eos"])["diagnostics"];
    for path in [
        "/transaction_id",
        "/model_identity/checksum",
        "/model_identity/precision",
        "/model_identity/vocab_size",
        "/load_stage_status",
        "/generation_stage/prompt_tokens",
        "/generation_stage/generated_tokens",
        "/generation_stage/stop_reason",
        "/generation_stage/context_utilization_bytes",
        "/performance_metrics/time_to_first_token_ms",
        "/performance_metrics/generation_time_ms",
        "/performance_metrics/tokens_per_second",
        "/error_recovery/numeric_code",
        "/memory/active_seq_len",
    ] {
        assert!(d.pointer(path).is_some_and(|value| !value.is_null()), "{path}: {d}");
    }
    assert!(d["error_recovery"]["stable_message"].is_null());
    assert_eq!(
        (&d["load_stage_status"], &d["error_recovery"]["numeric_code"]),
        (&"KV_ALLOCATION_SUCCESS".into(), &0.into())
    );
    assert_eq!(d["model_identity"]["checksum"].as_str().unwrap().len(), 16);
    // A failure is an object too.
    let model = tiny();
    let output = slm(&["run", model.to_str().unwrap(), "--ids", "1,99999", "--json"], "");
    let failed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(failed["error"]["name"], "TokenRange");
    assert_eq!(failed["diagnostics"]["error_recovery"]["stable_message"], "TokenRange");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    for (arguments, word) in [
        (["--temperature", "-1"].as_slice(), "temperature"),
        (&["--temperature", "nan"], "temperature"),
        (&["--top-k", "2000"], "top"),
        (&["--top-p", "1.5"], "top"),
        (&["--min-p", "-0.1"], "min"),
        (&["--typical-p", "0"], "typical"),
        (&["--repetition-penalty", "0"], "penalty"),
        (&["--preset", "wild"], "chat, precise, creative, code, json"),
        (&["--context", "100000"], "--context 100000"),
        (&["--context", "4", "-p", "A long prompt"], "--context"),
        (&["--stop", ""], "stop"),
        (&["--stop-id", "99999"], "stop"),
        (&["--stop-loops", "7"], "--stop-loops"),
        (&["--stop-loops", "65:2"], "loop"),
        (&["--min-tokens", "9", "-n", "3"], "inimum"),
        (&["--bias", "3"], "equals"),
        (&["--bias", "99999=1"], "bias"),
        (&["--frobnicate"], "--frobnicate"),
    ] {
        let mut all = vec!["-n", "2"];
        if !arguments.contains(&"-p") {
            all.extend(["-p", "Hi"]);
        }
        if arguments.contains(&"-n") {
            all.drain(..2);
        }
        all.extend(arguments);
        let (code, out, err) = run(&all);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.to_lowercase().contains(&word.to_lowercase()), "{arguments:?}: {err}");
    }
    assert_eq!(slm(&["run"], "").status.code(), Some(2));
    let missing = slm(&["run", "/nowhere/model.slm", "-p", "x"], "");
    assert_eq!(missing.status.code(), Some(6));
    assert!(text(&missing.stderr).contains("/nowhere/model.slm"));
    let model = tiny();
    let untalking = slm(&["chat", model.to_str().unwrap()], "hi\n");
    assert_eq!(untalking.status.code(), Some(4));
    assert!(text(&untalking.stderr).contains("slm run"));
}

#[test]
fn a_dialogue_reuses_its_cache_and_says_so() {
    let (code, out, err) = chat(
        &["-n", "6", "--seed", "3", "--ignore-eos"],
        &["/stats", "Hello", "And then?", "/stats", "/quit", "never"],
    );
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("no reply yet") && err.contains("transcript: 4 messages"), "{err}");
    let line = err.lines().find(|line| line.starts_with("last prompt")).unwrap();
    let numbers: Vec<usize> = line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    let [tokens, reused, computed, messages, dropped] = numbers[..] else { panic!("{line}") };
    assert!(reused > 0 && reused + computed == tokens, "{line}");
    assert_eq!((messages, dropped), (3, 0));
    assert!(err.contains(&format!("kv_len {}", tokens + 5)), "{err}");
    assert!(err.contains("last reply: 6 tokens, stop max_output"), "{err}");
    assert!(!out.contains("never"));
    // The same lines give the same text; --stats says the same after each reply.
    let (_, again, stats) = chat(&["-n", "6", "--seed", "3", "--ignore-eos", "--stats"], &["Hello", "And then?"]);
    assert_eq!(out, again);
    assert_eq!(stats.matches("stop max_output").count(), 2, "{stats}");
}

#[test]
fn a_saved_dialogue_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("talk.json");
    let (save, load) = (format!("/save {}", file.display()), format!("/load {}", file.display()));
    let arguments = ["-n", "5", "--seed", "1", "--ignore-eos"];
    let (code, out, err) = chat(&arguments, &["/system Be \"brief\".", "One", &save, "Two"]);
    assert_eq!(code, 0, "{err}");
    let saved: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let roles: Vec<&str> = saved["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant"]);
    assert_eq!(saved["messages"][0]["content"], "Be \"brief\".");
    let (code, rest, err) = chat(&arguments, &[&load, "Two"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.ends_with(&rest), "{out:?} {rest:?}");
    // After a reset the first question gets its first answer again.
    let (_, twice, err) = chat(&arguments, &["One", "/reset", "One", "/stats"]);
    let half = twice.len() / 2;
    assert_eq!(twice[..half], twice[half..], "{twice:?}");
    assert!(err.contains("transcript: 2 messages") && err.contains(" 0 reused"), "{err}");
}

#[test]
fn a_script_ends_at_the_first_line_that_fails() {
    for (line, code, word) in [
        ("/frobnicate", 2, "/help"),
        ("/load /nowhere/talk.json", 6, "/nowhere/talk.json"),
        ("/save", 2, "file"),
        (&"long ".repeat(2000), 2, "--context"),
    ] {
        let (got, out, err) = chat(&["-n", "3", "--ignore-eos"], &[line, "Hello"]);
        assert_eq!((got, out.as_str()), (code, ""), "{line}: {err}");
        assert!(err.contains(word), "{line}: {err}");
    }
    let (code, out, err) = chat(&["-n", "2", "--ignore-eos"], &["", "/help", "  "]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.contains("/system TEXT"), "{err}");
}

#[test]
fn a_full_context_drops_the_oldest_turns_and_goes_on() {
    let questions: Vec<String> =
        (0..12).map(|n| format!("Question number {n}, a little longer than it need be?")).collect();
    let mut lines: Vec<&str> = questions.iter().map(String::as_str).collect();
    lines.push("/stats");
    let (code, _, err) = chat(&["-n", "4", "--ignore-eos", "--context", "128", "--system", "S"], &lines);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("transcript: 25 messages"), "{err}");
    let line = err.lines().find(|line| line.starts_with("last prompt")).unwrap();
    let dropped: usize = line.split("messages, ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(dropped > 0 && dropped.is_multiple_of(2), "{line}");
}

#[test]
fn conversations_as_objects_log_what_the_template_made() {
    let line = r#"{"messages":[{"role":"user","content":"Hi <|im_end|>"}]}"#;
    let (code, out, err) = chat(&["--json", "-n", "3", "--ignore-eos"], &[line, "nonsense", line]);
    assert_eq!(code, 0, "{err}");
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[1]["error"]["name"], "InvalidJson");
    assert_eq!(lines[0]["ids"], lines[2]["ids"], "each line is a conversation of its own");
    let log = &lines[0]["template"];
    assert!(log["rendered"].as_str().unwrap().contains("Hi <|im_end|>"), "{log}");
    assert_eq!(log["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(log["content_specials"], "data");
    assert!(log["special_tokens"].is_array() && log["writes_bos"].is_boolean());
}
