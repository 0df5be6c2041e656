//! What a cache of codes changes: the next-token distributions of a text with keys and values as codes beside those with f32.
//!
//!     kv_cache MODEL.slm TEXT_FILE [POSITIONS]

use std::error::Error;
use tinyrustlm::core::kernels::Serial;
use tinyrustlm::core::kv_cache::KvType;
use tinyrustlm::core::model::Model;
use tinyrustlm::core::plan::Plan;
use tinyrustlm::core::session::Session;
use tinyrustlm::core::tokenizer::Encode;
use tinyrustlm::{Memory, ModelFile, describe, detect};
use tinyrustlm_cli::convert::{best, cosine, divergence};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(path), Some(text)) = (words.next(), words.next()) else {
        return Err("usage: kv_cache MODEL.slm TEXT_FILE [POSITIONS]".into());
    };
    let positions = words.next().map_or(Ok(1024), |word| word.parse::<usize>())?;
    let file = ModelFile::open(&path)?;
    let said = |e| describe(e, Some(file.bytes()));
    let model = Model::parse(file.bytes()).map_err(said)?;
    let tokenizer = model.tokenizer().map_err(said)?;
    let text = std::fs::read(&text)?;
    let mut scratch = vec![0; tokenizer.scratch_words(text.len())];
    let mut ids = vec![0; tokenizer.max_ids(text.len())];
    let how = Encode { add_special_tokens: true, content: None };
    let len = tokenizer.encode(&text, how, &mut scratch, &mut ids).map_err(said)?;
    ids.truncate(len.min(positions).min(model.config.max_context));

    let plan = |kv_type| Plan::new(&model, ids.len(), 1).and_then(|plan| plan.for_cache(&model, kv_type));
    let plans = [plan(KvType::F32).map_err(said)?, plan(KvType::Q8_0).map_err(said)?];
    let mut memories = [Memory::new(&plans[0])?, Memory::new(&plans[1])?];
    let [exact, coded] = &mut memories;
    let mut exact = Session::new(&model, plans[0], exact.blocks(), detect()).map_err(said)?;
    let mut coded = Session::new(&model, plans[1], coded.blocks(), detect()).map_err(said)?;
    let (mut sum, mut worst, mut same, mut least) = (0.0, 0.0f64, 0, 1.0f64);
    for &id in &ids {
        let x = exact.step(id, &Serial).map_err(said)?;
        let y = coded.step(id, &Serial).map_err(said)?;
        let kl = divergence(x, y);
        sum += kl;
        worst = worst.max(kl);
        same += usize::from(best::<1>(x) == best::<1>(y));
        least = least.min(cosine(x, y));
    }
    let n = ids.len() as f64;
    println!("{} positions of {path}, keys and values q8_0 beside f32", ids.len());
    println!("KL {:.6} nats on average, {worst:.4} at most; same best token {:.2} %", sum / n, 100.0 * same as f64 / n);
    println!("least cosine {least:.5}; {} bytes instead of {}", plans[1].kv_bytes(), plans[0].kv_bytes());
    Ok(())
}
