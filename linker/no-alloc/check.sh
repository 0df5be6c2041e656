#!/usr/bin/env bash
# Builds the proof for wasm32 and reads the module's imports: there must be none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
cargo build --quiet --release --locked --target wasm32-unknown-unknown --target-dir ../../target/no-alloc
node -e '
    const file = process.argv[1];
    const module = new WebAssembly.Module(require("fs").readFileSync(file));
    const imports = WebAssembly.Module.imports(module).map((i) => i.name);
    const exports = WebAssembly.Module.exports(module).filter((e) => e.kind === "function").map((e) => e.name);
    if (exports.length === 0) throw new Error("nothing is exported, so nothing was checked");
    if (imports.length > 0) throw new Error(`the module imports ${imports.join(", ")}`);
    console.log(`no import; exports ${exports.join(", ")}`);
' ../../target/no-alloc/wasm32-unknown-unknown/release/no_alloc.wasm
