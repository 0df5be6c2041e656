#!/usr/bin/env bash
# Builds candle-peer natively and candle-peer.wasm into target/candle-peer. candle chooses its SIMD code when it is compiled, hence the
# flags. Takes some ten minutes. Needs wasm-opt, Debian's binaryen or that of shell-wasm/build.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
target=$root/target/candle-peer
optimise=$(command -v wasm-opt || echo "$root/shell-wasm/node_modules/.bin/wasm-opt")
cd "$here"
RUSTFLAGS=-Ctarget-cpu=native cargo build --locked --release --target-dir "$target"
RUSTFLAGS='-Ctarget-feature=+simd128 --cfg getrandom_backend="custom"' \
    cargo rustc --locked --release --lib --crate-type cdylib --target wasm32-unknown-unknown --target-dir "$target"
# A tenth faster.
"$optimise" -O3 --enable-simd --enable-bulk-memory --enable-reference-types --enable-nontrapping-float-to-int --enable-sign-ext \
    --enable-multivalue --enable-mutable-globals "$target/wasm32-unknown-unknown/release/candle_peer.wasm" -o "$target/candle-peer.wasm"
cp "$target/release/candle-peer" "$target/candle-peer"
