//! The matrix products alone: `kernels [MILLISECONDS] [BACKEND]`, 200 for each figure and the best instruction set by default;
//! or `kernels count TYPE TOKENS TIMES`, so many products of one kind and nothing else, for a program that counts instructions.
//!
//! The shapes are those of SmolLM2-135M. One token reads the weights from memory; more of them work from the cache, and
//! then the multiplications decide.

use std::hint::black_box;
use std::time::Instant;
use tinyrustlm::core::container::DType;
use tinyrustlm::core::kernels::codes::encode;
use tinyrustlm::core::kernels::{Codes, Input, Isa, Product, Serial, Step, matmul};
use tinyrustlm::core::model::{Linear, Matrix};
use tinyrustlm::detect;
use tinyrustlm_benches::{Random, Table, instruction_set, seconds_each, weights};

const USAGE: &str = "usage: kernels [MILLISECONDS] [BACKEND] | kernels count TYPE TOKENS TIMES";

const SHAPES: [(usize, usize); 4] = [(576, 576), (1536, 576), (576, 1536), (49152, 576)];
/// One, as in decoding; the heads that share a key head in attention over codes; a tile; a prompt.
const TOKENS: [usize; 4] = [1, 3, 8, 64];
const TYPES: [(DType, &str); 5] =
    [(DType::F32, "f32"), (DType::Bf16, "bf16"), (DType::Q8_0, "q8_0"), (DType::Q4_0, "q4_0"), (DType::Q4_1, "q4_1")];

/// What is multiplied.
struct Inputs {
    tokens: usize,
    cols: usize,
    floats: Vec<f32>,
    codes: Vec<i16>,
    steps: Vec<Step>,
}

impl Inputs {
    fn new(isa: Isa, tokens: usize, cols: usize, random: &mut Random) -> Self {
        let floats = random.floats(tokens * cols);
        let (mut codes, mut steps) = (vec![0; floats.len()], vec![Step { d: 0.0, sum: 0 }; floats.len() / 32]);
        encode(isa, &floats, cols, &mut codes, &mut steps);
        Self { tokens, cols, floats, codes, steps }
    }

    fn view(&self) -> Input<'_> {
        let codes = Codes { codes: &self.codes, steps: &self.steps };
        Input { tokens: self.tokens, cols: self.cols, floats: &self.floats, codes }
    }
}

/// `times` products of 576 x 576 weights and `tokens` inputs.
fn repeat(dtype: &str, tokens: usize, times: usize) -> Result<(), Box<dyn std::error::Error>> {
    let (dtype, _) = TYPES.into_iter().find(|(_, name)| *name == dtype).ok_or("no such type")?;
    let (rows, cols) = SHAPES[0];
    let mut random = Random(1);
    let data = weights(dtype, rows, cols, &mut random);
    let matrix = Matrix { dtype, rows, cols, data: bytemuck::cast_slice(&data) };
    let inputs = Inputs::new(detect(), tokens, cols, &mut random);
    let mut out = vec![0.0f32; tokens * rows];
    for _ in 0..times {
        matmul(detect(), &Serial, &inputs.view(), &[Product::new(&Linear { matrix, bias: None }, &mut out)])?;
        black_box(&mut out);
    }
    println!("{}", detect().name());
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [count, dtype, tokens, times] = arguments.as_slice()
        && count == "count"
    {
        return repeat(dtype, tokens.parse()?, times.parse()?);
    }
    let mut arguments = arguments.into_iter();
    let least = arguments.next().map_or(Ok(200.0), |text| text.parse::<f64>()).map_err(|_| USAGE)? / 1e3;
    let isa = arguments.next().map_or(Ok(detect()), |name| instruction_set(&name))?;
    if arguments.next().is_some() {
        return Err(USAGE.into());
    }
    let mut random = Random(1);
    let columns = [("type", 5), ("shape", 13), ("tokens", 7), ("us", 11), ("GMAC/s", 10), ("GB/s", 9), (isa.name(), 7)];
    let table = Table::new(&columns);
    for (dtype, name) in TYPES {
        for (rows, cols) in SHAPES {
            let data = weights(dtype, rows, cols, &mut random);
            let matrix = Matrix { dtype, rows, cols, data: bytemuck::cast_slice(&data) };
            for tokens in TOKENS {
                let inputs = Inputs::new(isa, tokens, cols, &mut random);
                let input = inputs.view();
                let mut out = vec![0.0f32; tokens * rows];
                // The best of many short runs: what the kernel takes when nobody disturbs it.
                let again = (20_000_000 / (rows * cols * tokens)).max(1);
                let (mut best, all) = (f64::MAX, Instant::now());
                while all.elapsed().as_secs_f64() < least {
                    let linear = Linear { matrix, bias: None };
                    let mut done = Ok(());
                    let seconds = seconds_each(again, || {
                        done = matmul(isa, &Serial, &input, &[Product::new(&linear, &mut out)]);
                        black_box(&mut out);
                    });
                    done?;
                    best = best.min(seconds);
                }
                table.row([
                    name.to_owned(),
                    format!("{rows}x{cols}"),
                    tokens.to_string(),
                    format!("{:.1}", best * 1e6),
                    format!("{:.2}", (rows * cols * tokens) as f64 / best / 1e9),
                    format!("{:.2}", (data.len() * 4) as f64 / best / 1e9),
                ]);
            }
        }
    }
    Ok(())
}
