#!/usr/bin/env bash
# Builds candle-peer natively and candle-peer.wasm into target/candle-peer. candle chooses its SIMD code when it is compiled, hence the
# flags. Takes some ten minutes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=$(cd "$here/../../.." && pwd)/target/candle-peer
cd "$here"
RUSTFLAGS=-Ctarget-cpu=native cargo build --locked --release --target-dir "$target"
RUSTFLAGS='-Ctarget-feature=+simd128 --cfg getrandom_backend="custom"' \
    cargo rustc --locked --release --lib --crate-type cdylib --target wasm32-unknown-unknown --target-dir "$target"
cp "$target/release/candle-peer" "$target/candle-peer"
cp "$target/wasm32-unknown-unknown/release/candle_peer.wasm" "$target/candle-peer.wasm"
