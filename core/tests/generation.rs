//! The generation loop over a tiny model whose tokens are bytes. Masks of one token write any text.

use std::sync::LazyLock;
use tinyrustlm_core::container::{checksum, header};
use tinyrustlm_core::diagnostics::{Shell, write_report, write_trace};
use tinyrustlm_core::kernels::{Isa, Serial};
use tinyrustlm_core::model::Model;
use tinyrustlm_core::plan::Plan;
use tinyrustlm_core::sampler::{Bias, Preset, SamplerConfig};
use tinyrustlm_core::session::{Event, Generation, Limits, LoopRule, Session};
use tinyrustlm_core::stops::StopReason;
use tinyrustlm_core::tokenizer::Encode;
use tinyrustlm_core::{Block64, Code};

const FILE: &[u8] = include_bytes!("../../fixtures/models/tiny-f32.slm");
const EOS: u32 = 257;
const PROMPT: &[u32] = &[256, 72, 101, 108, 108];

/// The file, aligned, and its model.
static MODEL: LazyLock<Model<'static>> = LazyLock::new(|| {
    let mut blocks = vec![Block64::ZERO; Block64::count(FILE.len())];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut blocks);
    bytes[..FILE.len()].copy_from_slice(FILE);
    let bytes: &'static [u8] = bytemuck::cast_slice(Box::leak(blocks.into_boxed_slice()));
    Model::parse(&bytes[..FILE.len()]).unwrap()
});

fn leak(blocks: usize) -> &'static mut [Block64] {
    Box::leak(vec![Block64::ZERO; blocks].into_boxed_slice())
}

fn generation(config: &SamplerConfig, context: usize) -> Generation<'static, 'static> {
    let plan = Plan::new(&MODEL, context, 16).unwrap();
    let session = Session::new(&MODEL, plan, leak(plan.block_count()), Isa::Scalar).unwrap();
    let tokenizer = MODEL.tokenizer().unwrap();
    let blocks = Generation::blocks(plan.vocab_size, plan.context);
    Generation::new(session, &tokenizer, config, leak(blocks)).unwrap()
}

fn only(id: u32) -> [u32; 9] {
    let mut mask = [0; 9];
    mask[id as usize / 32] = 1 << (id % 32);
    mask
}

/// Writes `ids` one by one; the text of every event.
fn write(g: &mut Generation<'_, '_>, ids: &[u32], limits: &Limits) -> (Vec<String>, Option<StopReason>) {
    let mut out = vec![0; g.room()];
    g.begin(PROMPT, 0, limits).unwrap();
    let mut texts = Vec::new();
    for &id in ids {
        while !g.wants_token() {
            assert_eq!(g.next(&Serial, None, &mut out).unwrap(), Event::default());
        }
        let event = g.next(&Serial, Some(&only(id)), &mut out).unwrap();
        assert_eq!(event.token.unwrap().id, id);
        texts.push(String::from_utf8(out[..event.written].to_vec()).unwrap());
        if event.stop.is_some() {
            return (texts, event.stop);
        }
    }
    g.cancel();
    let event = g.next(&Serial, None, &mut out).unwrap();
    texts.push(String::from_utf8(out[..event.written].to_vec()).unwrap());
    (texts, event.stop)
}

/// Generates to the end.
fn finish(g: &mut Generation<'_, '_>, prompt: &[u32], limits: &Limits) -> (String, Vec<u32>, StopReason) {
    let mut out = vec![0; g.room()];
    g.begin(prompt, 0, limits).unwrap();
    let mut text = String::new();
    loop {
        let event = g.next(&Serial, None, &mut out).unwrap();
        text += std::str::from_utf8(&out[..event.written]).unwrap();
        if let Some(stop) = event.stop {
            return (text, g.generated().to_vec(), stop);
        }
    }
}

#[test]
fn an_emoji_in_four_tokens_is_silent_until_it_is_whole() {
    let mut g = generation(&SamplerConfig::GREEDY, 64);
    let (texts, _) = write(&mut g, &[0xF0, 0x9F, 0x98, 0x80], &Limits::default());
    assert_eq!(texts, ["", "", "", "😀", ""]);
    assert!(!g.incomplete_tail());
    let (texts, stop) = write(&mut g, &[0xF0, 0x9F, 0x98], &Limits::default());
    assert_eq!((texts.concat().as_str(), stop), ("\u{FFFD}", Some(StopReason::Cancelled)));
    assert!(g.incomplete_tail());
    assert_eq!(g.generated(), [0xF0, 0x9F, 0x98]);
}

#[test]
fn a_stop_string_over_three_tokens_never_shows() {
    let mut g = generation(&SamplerConfig::GREEDY, 64);
    g.set_stops(&[], [b"END".as_slice()].into_iter(), false).unwrap();
    let ids: Vec<u32> = "so ENEND more".bytes().map(u32::from).collect();
    let (texts, stop) = write(&mut g, &ids, &Limits::default());
    assert_eq!((texts.concat().as_str(), stop), ("so EN", Some(StopReason::StopString)));
    let found = g.stop_match().unwrap();
    assert_eq!((found.string, found.start, found.end), (0, 5, 8));
    assert_eq!(g.generated(), &ids[..8]);
    // Only generated text counts: the prompt ends in "Hell".
    g.set_stops(&[], [b"llo".as_slice()].into_iter(), false).unwrap();
    assert_eq!(write(&mut g, &[u32::from(b'o')], &Limits::default()).0.concat(), "o");
}

#[test]
fn any_stream_of_ids_concatenates_to_the_whole_decode() {
    let mut g = generation(&SamplerConfig::GREEDY, 64);
    let mut state = 5u64;
    let mut next = |n: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % n
    };
    let bytes: Vec<u8> = "aé漢😀".bytes().chain([0xFF, 0xC0, 0xED, 0xA0, 0xF4, 0x90, 0xE0, 0x80]).collect();
    for _ in 0..1000 {
        let text: Vec<u8> = (0..1 + next(12)).map(|_| bytes[next(bytes.len() as u64) as usize]).collect();
        let ids: Vec<u32> = text.iter().map(|&b| u32::from(b)).collect();
        let (texts, _) = write(&mut g, &ids, &Limits::default());
        assert_eq!(texts.concat(), String::from_utf8_lossy(&text));
    }
}

#[test]
fn an_end_token_ends_at_once_and_is_kept_in_the_ids_only() {
    let bias = [Bias { id: EOS, value: 1e5 }];
    let mut g = generation(&SamplerConfig::GREEDY, 64);
    g.sampler().set_bias(&bias).unwrap();
    let (text, ids, stop) = finish(&mut g, PROMPT, &Limits::default());
    assert_eq!((text.as_str(), ids.as_slice(), stop), ("", [EOS].as_slice(), StopReason::EosToken));
    assert_eq!(g.session().kv_len(), PROMPT.len(), "the end token is not forwarded");

    let (_, ids, stop) = finish(&mut g, PROMPT, &Limits { ignore_eos: true, max_new_tokens: 3, ..Limits::default() });
    assert_eq!((ids.as_slice(), stop), ([EOS; 3].as_slice(), StopReason::MaxOutput));
    let (_, ids, stop) = finish(&mut g, PROMPT, &Limits { min_new_tokens: 4, ..Limits::default() });
    assert_eq!((ids.len(), ids.iter().position(|&id| id == EOS), stop), (5, Some(4), StopReason::EosToken));
}

#[test]
fn held_text_comes_out_when_generation_ends() {
    let mut g = generation(&SamplerConfig::GREEDY, 64);
    g.set_stops(&[u32::from(b'!')], [b"abc".as_slice()].into_iter(), false).unwrap();
    let (texts, stop) = write(&mut g, &[b'x', b'a', b'b', b'!'].map(u32::from), &Limits::default());
    assert_eq!((texts.concat().as_str(), stop), ("xab", Some(StopReason::StopTokenId)));
}

#[test]
fn ten_tokens_forwarded_after_five_leave_fifteen_positions() {
    let mut g = generation(&SamplerConfig::GREEDY, 64);
    let limits = Limits { max_new_tokens: 11, ignore_eos: true, ..Limits::default() };
    finish(&mut g, PROMPT, &limits);
    // The eleventh is sampled and not forwarded.
    assert_eq!((g.session().kv_len(), g.generated().len()), (15, 11));
    let plan = *g.session().plan();
    // A head of a layer after the other, its positions in one stretch.
    let row = MODEL.config.head_dim;
    let (keys, values) = g.session().caches();
    for cache in [keys, values] {
        for head in cache.chunks(plan.context * row) {
            assert!(head[15 * row..].iter().all(|&x| x == 0.0), "nothing beyond row 15 is touched");
            assert!(head[..15 * row].iter().any(|&x| x != 0.0));
        }
    }
}

#[test]
fn prompt_and_output_never_exceed_the_context() {
    let mut g = generation(&SamplerConfig::GREEDY, 8);
    let limits = Limits { ignore_eos: true, ..Limits::default() };
    let (_, ids, stop) = finish(&mut g, PROMPT, &limits);
    assert_eq!((ids.len(), stop), (3, StopReason::ContextFull));
    let (_, ids, stop) = finish(&mut g, &[65; 8], &limits);
    assert_eq!((ids.len(), stop), (0, StopReason::ContextFull));
    let error = g.begin(&[65; 9], 0, &limits).unwrap_err();
    assert_eq!((error.code(), error.index()), (Code::ContextExceeded, Some(9)));
    let (_, ids, stop) = finish(&mut g, PROMPT, &Limits { max_new_tokens: 0, ..limits });
    assert_eq!((ids.len(), stop), (0, StopReason::MaxOutput));
}

#[test]
fn a_cached_prefix_and_a_cold_start_give_the_same() {
    let (config, _) = Preset::Chat.profile();
    let limits = Limits { max_new_tokens: 12, ignore_eos: true, ..Limits::default() };
    let mut warm = generation(&config, 64);
    let (_, first, _) = finish(&mut warm, PROMPT, &limits);
    let longer: Vec<u32> = PROMPT.iter().chain(&first[..6]).copied().chain([33, 34]).collect();
    let warm_result = finish(&mut warm, &longer, &limits);
    assert_eq!(warm.reused(), PROMPT.len() + 6);
    let mut cold = generation(&config, 64);
    assert_eq!(warm_result, finish(&mut cold, &longer, &limits));
    // The same prompt again computes its last token again.
    assert_eq!(warm_result, finish(&mut warm, &longer, &limits));
    assert_eq!(warm.reused(), longer.len() - 1);
    warm.reset();
    assert_eq!(warm_result, finish(&mut warm, &longer, &limits));
    assert_eq!(warm.reused(), 0);
}

#[test]
fn a_cancelled_run_leaves_no_trace() {
    let (config, _) = Preset::Creative.profile();
    let limits = Limits { max_new_tokens: 10, ignore_eos: true, ..Limits::default() };
    let mut fresh = generation(&config, 64);
    let expected = finish(&mut fresh, PROMPT, &limits);
    let mut g = generation(&config, 64);
    let mut out = vec![0; g.room()];
    for after in 0..5 {
        g.begin(&[1, 2, 3], 0, &limits).unwrap();
        for _ in 0..after {
            g.next(&Serial, None, &mut out).unwrap();
        }
        g.cancel();
        assert_eq!(g.next(&Serial, None, &mut out).unwrap().stop, Some(StopReason::Cancelled));
        assert_eq!(g.next(&Serial, None, &mut out).unwrap_err().code(), Code::GenerationEnded);
    }
    assert_eq!(finish(&mut g, PROMPT, &limits), expected);
}

#[test]
fn faults_are_numbered_and_nothing_is_lost() {
    let mut g = generation(&SamplerConfig::GREEDY, 64);
    let mut out = vec![0; g.room()];
    let limits = Limits::default();
    assert_eq!(g.next(&Serial, None, &mut out).unwrap_err().code(), Code::GenerationEnded);
    assert_eq!(g.begin(&[], 0, &limits).unwrap_err().code(), Code::EmptyPrompt);
    let error = g.begin(&[1, 260], 0, &limits).unwrap_err();
    assert_eq!((error.code(), error.index()), (Code::TokenRange, Some(1)));
    let wild = Limits { min_new_tokens: 2, max_new_tokens: 1, ..limits };
    assert_eq!(g.begin(PROMPT, 0, &wild).unwrap_err().code(), Code::InvalidMinimumLength);
    let wild = Limits { loops: Some(LoopRule { max_period: 65, repetitions: 2 }), ..limits };
    assert_eq!(g.begin(PROMPT, 0, &wild).unwrap_err().code(), Code::InvalidLoopRule);
    assert_eq!(g.set_stops(&[260], std::iter::empty(), false).unwrap_err().code(), Code::InvalidStopId);
    let bad = g.set_stops(&[], [b"ok".as_slice(), b""].into_iter(), false).unwrap_err();
    assert_eq!((bad.code(), bad.index()), (Code::InvalidStopString, Some(1)));

    g.begin(PROMPT, 0, &limits).unwrap();
    assert_eq!(g.next(&Serial, None, &mut out[..8]).unwrap_err().code(), Code::OutputBufferExceeded);
    assert!(g.is_running());
    g.next(&Serial, None, &mut out).unwrap();
    // A mask that allows nothing ends this generation and no other.
    assert_eq!(g.next(&Serial, Some(&[0; 9]), &mut out).unwrap_err().code(), Code::AllTokensMasked);
    assert_eq!((g.stop(), g.error().map(|e| e.code())), (Some(StopReason::Error), Some(Code::AllTokensMasked)));
    let limits = Limits { max_new_tokens: 4, ..limits };
    let again = finish(&mut g, PROMPT, &limits);
    assert_eq!(again, finish(&mut generation(&SamplerConfig::GREEDY, 64), PROMPT, &limits));
}

#[test]
fn a_loop_is_reported_and_ends_where_a_rule_says() {
    let mut g = generation(&SamplerConfig::GREEDY, 64);
    let ids = b"xabababab".map(u32::from);
    let rule = Limits { loops: Some(LoopRule { max_period: 4, repetitions: 3 }), ..Limits::default() };
    let (texts, stop) = write(&mut g, &ids, &rule);
    assert_eq!((texts.concat().as_str(), stop), ("xababab", Some(StopReason::LoopDetected)));
    assert_eq!(g.loop_pattern(), [98, 97]);
    let (texts, _) = write(&mut g, &ids, &Limits::default());
    assert_eq!(texts.concat(), "xabababab");
    assert_eq!(g.looped().map(|l| (l.period, l.repetitions)), Some((2, 4)));
}

#[test]
fn the_report_is_the_same_for_the_same_run() {
    let (config, _) = Preset::Chat.profile();
    let limits = Limits { max_new_tokens: 5, logprobs: 3, ..Limits::default() };
    let mut reports = Vec::new();
    for _ in 0..2 {
        let mut g = generation(&config, 64);
        finish(&mut g, PROMPT, &limits);
        let mut out = vec![0; 8192];
        let len = write_report(&g, &Shell::default(), &mut out).unwrap();
        reports.push(String::from_utf8(out[..len].to_vec()).unwrap());
        let error = write_report(&g, &Shell::default(), &mut out[..16]).unwrap_err();
        assert_eq!((error.code(), error.index()), (Code::OutputBufferExceeded, Some(len as u32)));
    }
    assert_eq!(reports[0], reports[1]);
    assert!(reports[0].starts_with("{\"transaction_id\":null,\"model_identity\":{\"checksum\":\""));
}

#[test]
fn a_trace_lists_every_candidate_with_its_fate() {
    let (config, _) = Preset::Chat.profile();
    let mut g = generation(&config, 64);
    g.sampler().trace(100);
    let mut out = vec![0; g.room()];
    g.begin(PROMPT, 0, &Limits { logprobs: 2, ..Limits::default() }).unwrap();
    g.next(&Serial, None, &mut out).unwrap();
    let token = g.next(&Serial, None, &mut out).unwrap().token.unwrap();
    assert_eq!(g.candidates().len(), 100);
    assert_eq!(g.top().len(), 2);
    assert!(token.logprob.unwrap() <= g.top()[0].logprob);
    let mut out = vec![0; 1 << 16];
    let len = write_trace(&g, &token, 100, &mut out).unwrap();
    let text = String::from_utf8(out[..len].to_vec()).unwrap();
    assert_eq!(text.matches("\"logit\":").count(), 100);
    assert!(text.contains("\"cut\":\"top_k\""));
}

/// The model, changed so that one token's values overflow: its first component is large, the others' is zero, and it is
/// what the values are made of.
fn poisoned(token: usize) -> Model<'static> {
    let mut bytes = FILE.to_vec();
    let container = *MODEL.container();
    let columns = MODEL.config.hidden_size;
    let mut first = |name: &str, value: &dyn Fn(usize) -> f32| {
        let entry = container.entry(container.find(name).unwrap()).unwrap();
        let from = entry.byte_offset as usize;
        let rows = bytes[from..from + entry.byte_length as usize].chunks_mut(columns * 4);
        rows.enumerate().for_each(|(row, bytes)| bytes[..4].copy_from_slice(&value(row).to_le_bytes()));
    };
    first("tok_embeddings.weight", &|row| if row == token { 1000.0 } else { 0.0 });
    first("layers.0.wv.weight", &|_| 3e38);
    let sum = checksum(&bytes);
    bytes[header::CHECKSUM..header::CHECKSUM + 8].copy_from_slice(&sum.to_le_bytes());
    let blocks = leak(Block64::count(bytes.len()));
    let place: &'static mut [u8] = bytemuck::cast_slice_mut(blocks);
    place[..bytes.len()].copy_from_slice(&bytes);
    Model::parse(&place[..bytes.len()]).unwrap()
}

#[test]
fn a_value_that_is_not_finite_ends_one_generation_and_no_other() {
    let model = poisoned(200);
    let before = checksum(model.container().bytes());
    let plan = Plan::new(&model, 64, 16).unwrap();
    let session = Session::new(&model, plan, leak(plan.block_count()), Isa::Scalar).unwrap();
    let tokenizer = model.tokenizer().unwrap();
    let memory = leak(Generation::blocks(plan.vocab_size, plan.context));
    let mut g = Generation::new(session, &tokenizer, &SamplerConfig::GREEDY, memory).unwrap();
    let limits = Limits { max_new_tokens: 6, ignore_eos: true, ..Limits::default() };
    let expected = finish(&mut g, PROMPT, &limits);
    g.reset();
    let mut out = vec![0; g.room()];
    // In the prompt, then in the middle of an answer.
    for prompt in [&[256, 200][..], PROMPT] {
        g.begin(prompt, 0, &limits).unwrap();
        let error = loop {
            let mask = only(200);
            let allowed = g.wants_token().then_some(&mask[..]);
            match g.next(&Serial, allowed, &mut out) {
                Ok(event) => assert_eq!(event.stop, None),
                Err(error) => break error,
            }
        };
        assert_eq!(error.code().name()[..9], *"NonFinite", "{error}");
        assert_eq!((g.stop(), g.error()), (Some(StopReason::Error), Some(error)));
        let mut report = vec![0; 8192];
        let len = write_report(&g, &Shell::default(), &mut report).unwrap();
        let report = String::from_utf8(report[..len].to_vec()).unwrap();
        assert!(report.contains(&format!("\"numeric_code\":{}", error.number())), "{report}");
        assert!(report.contains("\"stop_reason\":\"ERROR\""), "{report}");
        assert_eq!(finish(&mut g, PROMPT, &limits), expected);
    }
    assert_eq!(checksum(model.container().bytes()), before);
}

#[test]
fn ill_formed_text_from_a_host_touches_nothing() {
    let mut g = generation(&SamplerConfig::GREEDY, 64);
    let limits = Limits { max_new_tokens: 4, ..Limits::default() };
    let expected = finish(&mut g, PROMPT, &limits);
    let held = g.session().kv_len();
    let text = b"ok \xC3(";
    let tokenizer = *g.tokenizer();
    let (mut scratch, mut ids) = (vec![0; tokenizer.scratch_words(text.len())], vec![0; tokenizer.max_ids(text.len())]);
    let error = tokenizer.encode(text, Encode::default(), &mut scratch, &mut ids).unwrap_err();
    assert_eq!((error.code(), error.offset()), (Code::InvalidUtf8, Some(3)));
    assert_eq!(g.session().kv_len(), held);
    assert_eq!(finish(&mut g, PROMPT, &limits), expected);
}

#[test]
fn cancelling_within_a_character_keeps_what_there_was() {
    let mut g = generation(&SamplerConfig::GREEDY, 64);
    let (texts, stop) = write(&mut g, &[b'a' as u32, 0xF0, 0x9F], &Limits::default());
    assert_eq!((texts.concat().as_str(), stop), ("a\u{FFFD}", Some(StopReason::Cancelled)));
    assert!(g.incomplete_tail());
    assert_eq!(g.generated(), [97, 0xF0, 0x9F]);
    let limits = Limits { max_new_tokens: 4, ..Limits::default() };
    assert_eq!(finish(&mut g, PROMPT, &limits), finish(&mut generation(&SamplerConfig::GREEDY, 64), PROMPT, &limits));
}
