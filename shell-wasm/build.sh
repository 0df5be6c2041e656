#!/usr/bin/env bash
# Builds the modules and the npm package's dist/ folder. Needs cargo (rust-toolchain.toml) and Node 20 or later.
#   shell-wasm/build.sh              everything
#   shell-wasm/build.sh --check      everything, then the size gate and the list of imports
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
build=$root/target/wasm
dist=$here/js/dist
cd "$root"

say() { printf '%s\n' "$*" >&2; }

# rustc marks these by default for wasm32; wasm-opt must be told once the section that says so is gone.
features=(--enable-bulk-memory --enable-bulk-memory-opt --enable-reference-types --enable-nontrapping-float-to-int
  --enable-sign-ext --enable-multivalue --enable-mutable-globals --enable-call-indirect-overlong)

rustup target list --installed | grep -qx wasm32-unknown-unknown || rustup target add wasm32-unknown-unknown
if [ ! -x "$here/node_modules/.bin/wasm-opt" ] || [ "$here/package-lock.json" -nt "$here/node_modules/.package-lock.json" ]; then
  say "fetching the build tools of shell-wasm/package-lock.json"
  (cd "$here" && npm ci --no-audit --no-fund --loglevel=error >&2)
fi
say "building the host tool"
cargo build --quiet --manifest-path "$here/pack/Cargo.toml" --target-dir "$root/target/wasm-pack"
pack=$root/target/wasm-pack/debug/tinyrustlm-wasm-pack

# A panic that the compiler cannot rule out keeps the path of its source: short, and the same on every machine.
remap=("--remap-path-prefix=$HOME=~" "--remap-path-prefix=$root=." "--remap-path-prefix=$(rustc --print sysroot)/lib/rustlib/src/rust/library=")
for sources in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do remap+=("--remap-path-prefix=$sources="); done

link=()
while IFS= read -r line; do
  case $line in ''|'#'*) ;; *) link+=("-Clink-arg=$line") ;; esac
done < "$root/linker/wasm.args"

# The loop strength reduction counts addresses that end in a constant as dear, which they are not here: without it loads
# keep their offsets, and loops are shorter and faster.
plain_loops=-Cllvm-args=-disable-lsr

# module NAME RUSTFLAG... : dist/NAME.wasm, and target/wasm/NAME.named.wasm with function names for `slm size`.
module() {
  local name=$1; shift
  say "building $name.wasm"
  RUSTFLAGS="${link[*]} $plain_loops ${remap[*]} $*" \
    cargo build --quiet -p tinyrustlm-wasm --target wasm32-unknown-unknown --profile wasm-release \
    --target-dir "$build/$name"
  local scalar=()
  [ "$name" = tinyrustlm ] || scalar=(--scalar)
  "$pack" "$build/$name/wasm32-unknown-unknown/wasm-release/tinyrustlm_wasm.wasm" "$build/out" "$name" "${scalar[@]}"
  local simd=()
  [ "$name" = tinyrustlm ] && simd=(--enable-simd)
  # Structured anew from flat code, then optimised until little is left to gain; the rest makes bytes shorter.
  "$here/node_modules/.bin/wasm-opt" "${features[@]}" "${simd[@]}" --flatten --rereloop -Oz -Oz --const-hoisting --reorder-locals \
    --reorder-functions -g "$build/out/$name.wasm" -o "$build/$name.named.wasm"
  "$here/node_modules/.bin/wasm-opt" "${features[@]}" "${simd[@]}" --strip-debug --strip-producers --strip-target-features \
    "$build/$name.named.wasm" -o "$dist/$name.wasm"
}

rm -rf "$dist"
mkdir -p "$dist" "$build/out"
module tinyrustlm -Ctarget-feature=+simd128
module tinyrustlm-scalar
cp "$build/out/tinyrustlm_bindgen.js" "$build/out/tinyrustlm_bindgen.d.ts" "$dist/"
node "$here/js/scripts/bundle.mjs"
node "$here/js/scripts/page.mjs"
node "$here/js/scripts/check-module.mjs" "$dist/tinyrustlm.wasm" "$dist/tinyrustlm-scalar.wasm"

if [ "${1:-}" = --check ]; then
  cargo build --quiet --release -p tinyrustlm-cli
  for name in tinyrustlm tinyrustlm-scalar; do
    "$root/target/release/slm" size "$dist/$name.wasm" --budget 114KiB --names "$build/$name.named.wasm" \
      $([ -f "$root/linker/size/$name.json" ] && echo "--baseline $root/linker/size/$name.json")
  done
fi
