//! How the last token was chosen, as JSON.

use super::Json;
use crate::error::Error;
use crate::sampler::Cut;
use crate::session::{Generation, Token};

/// Writes every stage of the last choice: the best tokens of the model itself (where log-probabilities were asked for),
/// then up to `rows` candidates with raw logit, score after bias and penalties, the stage that cut them and the final
/// probability, then the draw. Returns its length.
///
/// # Errors
/// [`OutputBufferExceeded`](crate::Code::OutputBufferExceeded) with the length needed: about 200 bytes a row.
pub fn write_trace(
    generation: &Generation<'_, '_>,
    token: &Token,
    rows: usize,
    out: &mut [u8],
) -> Result<usize, Error> {
    let tokenizer = generation.tokenizer();
    let logits = generation.session().logits();
    let position = generation.prompt().len().saturating_add(generation.generated().len()).saturating_sub(1);
    let mut json = Json::new(out);
    json.object(|j| {
        j.key("id").integer(u64::from(token.id));
        j.key("text").string(tokenizer.token_bytes(token.id));
        j.key("position").integer(position as u64);
        j.key("draw").maybe(token.choice.draw.map(u64::from));
        j.key("probability").decimal(token.choice.probability);
        j.key("logprob").decimal(token.logprob.unwrap_or(f64::NAN));
        j.key("survivors").integer(u64::from(token.choice.survivors));
        j.key("lost_mass").decimal(token.choice.lost_mass);
        j.key("forced").word(Some(token.choice.forced));
        j.key("top").array(|j| {
            for entry in generation.top() {
                j.object(|j| {
                    j.key("id").integer(u64::from(entry.id));
                    j.key("text").string(tokenizer.token_bytes(entry.id));
                    j.key("logprob").decimal(entry.logprob);
                });
            }
        });
        j.key("candidates").array(|j| {
            for c in generation.candidates().iter().take(rows) {
                j.object(|j| {
                    j.key("id").integer(u64::from(c.id));
                    j.key("text").string(tokenizer.token_bytes(c.id));
                    let logit = logits.get(c.id as usize).copied().unwrap_or(f32::NAN);
                    j.key("logit").decimal(f64::from(logit));
                    j.key("score").decimal(c.score);
                    j.key("probability").decimal(c.probability);
                    match c.cut() {
                        Cut::None => j.key("cut").word(None),
                        cut => j.key("cut").string(cut.name().as_bytes()),
                    }
                });
            }
        });
    });
    json.finish()
}
