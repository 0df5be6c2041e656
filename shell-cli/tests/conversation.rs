//! Conversations: prompts that fit, the cache reused bit for bit, memory that does not grow.
//!
//! Runs on a small converted model; with `SLM_MODEL` naming a file also on that one, in release.

mod support;

use std::path::Path;
use std::sync::Mutex;
use tinyrustlm::{Memory, ModelFile, detect};
use tinyrustlm_cli::convert::Quant;
use tinyrustlm_core::Code;
use tinyrustlm_core::kernels::Serial;
use tinyrustlm_core::memory::Block64;
use tinyrustlm_core::model::Model;
use tinyrustlm_core::plan::Plan;
use tinyrustlm_core::session::Session;
use tinyrustlm_core::session::conversation::{Conversation, ConversationPlan, PromptOptions, prefix_key, resume};
use tinyrustlm_core::template::{Now, Template};

const NOW: Now = Now { year: 2026, month: 1, day: 15, hour: 12, minute: 0, second: 0 };

fn options(limit: usize) -> PromptOptions<'static> {
    PromptOptions { now: NOW, parse_specials: false, limit, vars: b"", generation_prompt: true }
}

fn small_model(name: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/families").join(name);
    support::run(&support::options(&source, file.path(), Quant::Auto)).unwrap();
    file
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|value| value.to_bits()).collect()
}

fn best(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, value) in logits.iter().enumerate() {
        if *value > logits[best] {
            best = id;
        }
    }
    best as u32
}

/// One test at a time: memory is the process's.
static ALONE: Mutex<()> = Mutex::new(());

/// Bytes of memory the process has in use; 0 where the system does not say.
fn resident() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<i64>().ok()).map_or(0, |pages| pages * 4096)
}

/// Three turns on one cache against a cold start for each; then fifty resets.
fn three_turns(path: &Path, reply: usize) {
    let file = ModelFile::open(path).unwrap();
    let model = Model::parse(file.bytes()).unwrap();
    let tokenizer = model.tokenizer().unwrap();
    let template = Template::parse(model.template_bytes()).unwrap();
    let plan = Plan::new(&model, model.config.max_context.min(512), 64).unwrap();
    let (mut memory, mut other) = (Memory::new(&plan).unwrap(), Memory::new(&plan).unwrap());
    let mut session = Session::new(&model, plan, memory.blocks(), detect()).unwrap();
    let mut cold = Session::new(&model, plan, other.blocks(), detect()).unwrap();
    let sizes = ConversationPlan::new(&tokenizer, 4096);
    let mut blocks = vec![Block64::ZERO; sizes.blocks()];
    let mut talk = Conversation::new(&sizes, &mut blocks).unwrap();
    let mut cached: Vec<u32> = Vec::new();
    let limit = session.context() - reply;
    for (turn, question) in ["test", "And then?", "  Ça va? <|im_end|>\r\n "].into_iter().enumerate() {
        talk.push("user", question).unwrap();
        let prompt = talk.prompt(&template, &tokenizer, &options(limit)).unwrap();
        let resumed = resume(&mut session, &cached, talk.ids(), &Serial).unwrap();
        cached = talk.ids().to_vec();
        cold.reset();
        cold.prefill(talk.ids(), &Serial).unwrap();
        assert_eq!(bits(session.logits()), bits(cold.logits()), "turn {turn}");
        assert_eq!(resumed.reused + resumed.computed, prompt.tokens);
        assert_eq!(session.kv_len(), prompt.tokens);
        assert_eq!((prompt.messages, prompt.dropped), (2 * turn + 1, 0));
        if turn > 0 {
            assert!(resumed.reused > 0, "turn {turn} reused nothing");
        }
        assert_eq!(prefix_key(&session, &cached), prefix_key(&cold, talk.ids()));
        let mut text = Vec::new();
        for step in 0..reply {
            let id = best(session.logits());
            let stop = model.stops.contains(id);
            assert!(step > 0 || turn > 0 || !stop, "the bare prompt gives no token");
            if stop {
                break;
            }
            text.extend_from_slice(tokenizer.token_bytes(id));
            session.step(id, &Serial).unwrap();
            cached.push(id);
        }
        eprintln!(
            "turn {turn}: {} tokens, {} reused, {} computed, kv_len {}, reply {:?}",
            prompt.tokens,
            resumed.reused,
            resumed.computed,
            session.kv_len(),
            String::from_utf8_lossy(&text)
        );
        talk.push("assistant", &String::from_utf8_lossy(&text)).unwrap();
    }
    let transcript = format!("[{}]", String::from_utf8_lossy(talk.transcript()));
    let read: serde_json::Value = serde_json::from_str(&transcript).unwrap();
    assert_eq!(read[4]["content"], "  Ça va? <|im_end|>\r\n ");

    // Soft resets: the same prompt gives the same bits, in the memory that is there.
    let mut grown = 0;
    for turn in 0..50 {
        session.reset();
        let before = resident();
        resume(&mut session, &[], talk.ids(), &Serial).unwrap();
        grown = if turn == 0 { 0 } else { grown + resident() - before };
        assert!(session.logits().iter().zip(cold.logits()).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
    eprintln!("50 resets and prefills: memory grew by {grown} bytes");
    assert_eq!(grown, 0);
}

#[test]
fn three_turns_have_the_bits_of_cold_starts() {
    let _alone = ALONE.lock();
    three_turns(small_model("llama_biases_linear").path(), 6);
    match std::env::var_os("SLM_MODEL") {
        Some(path) => three_turns(Path::new(&path), 24),
        None => eprintln!("SKIPPED three turns of a large model: SLM_MODEL names none"),
    }
}

#[test]
fn the_oldest_turns_go_whole_and_the_system_message_stays() {
    let _alone = ALONE.lock();
    let file = small_model("llama_biases_linear");
    let bytes = std::fs::read(file.path()).unwrap();
    let model = Model::parse(&bytes).unwrap();
    let tokenizer = model.tokenizer().unwrap();
    let section = tinyrustlm_cli::template::compile(
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
        "",
        &serde_json::Map::new(),
    )
    .unwrap()
    .section;
    let template = Template::parse(&section).unwrap();
    let sizes = ConversationPlan::new(&tokenizer, 2048);
    let mut blocks = vec![Block64::ZERO; sizes.blocks()];
    let mut talk = Conversation::new(&sizes, &mut blocks).unwrap();
    talk.push("system", "S").unwrap();
    for turn in 0..4 {
        talk.push("user", &format!("question {turn}")).unwrap();
        talk.push("assistant", &format!("answer {turn} 😀")).unwrap();
        talk.push("tool", "result").unwrap();
    }
    talk.push("user", "last").unwrap();
    let whole = talk.prompt(&template, &tokenizer, &options(usize::MAX)).unwrap();
    assert_eq!((whole.messages, whole.dropped), (14, 0));
    let one_less = talk.prompt(&template, &tokenizer, &options(whole.tokens - 1)).unwrap();
    assert_eq!((one_less.messages, one_less.dropped), (11, 3));
    let text = String::from_utf8(talk.text().to_vec()).unwrap();
    assert!(text.starts_with("<system>S<user>question 1<assistant>answer 1 😀<tool>result"), "{text}");
    assert!(text.ends_with("<user>last<assistant>"));
    // What was dropped stays dropped, so that the next prompt begins with the same tokens.
    let again = talk.prompt(&template, &tokenizer, &options(usize::MAX)).unwrap();
    assert_eq!(again.dropped, 3);
    let mut limit = again.tokens;
    let least = loop {
        limit -= 1;
        match talk.prompt(&template, &tokenizer, &options(limit)) {
            Ok(prompt) => {
                assert!(prompt.tokens <= limit);
                assert!(String::from_utf8_lossy(talk.text()).starts_with("<system>S<user>"));
            }
            Err(refusal) => break refusal.error,
        }
    };
    assert_eq!((least.code(), least.index()), (Code::ConversationTooLong, Some(limit as u32)));
    assert_eq!(least.offset(), Some(limit as u64 + 1));

    // A full transcript refuses the message and keeps the rest.
    let before = talk.transcript().to_vec();
    let refused = talk.push("user", &"x".repeat(4000)).unwrap_err();
    assert_eq!(refused.code(), Code::ConversationFull);
    assert_eq!(talk.transcript(), before);
    talk.reset();
    assert!(talk.is_empty() && talk.transcript().is_empty());
    talk.push("user", "\u{1}\"\\\u{7f}\n").unwrap();
    talk.prompt(&template, &tokenizer, &options(usize::MAX)).unwrap();
    assert_eq!(talk.text(), "<user>\u{1}\"\\\u{7f}\n<assistant>".as_bytes());
}
