#!/usr/bin/env bash
# Ours, llama.cpp and, where candle/build.sh has built it, candle on the same model, in interleaved rounds:
#     side_by_side.sh SLM_DIR GGUF_DIR [ROUNDS] [THREADS]
#
# SLM_DIR has smol-{q8_0,q4_0,bf16,f32}.slm (slm convert --quant), GGUF_DIR what make_gguf.py writes. bf16 stands beside the peer's
# bf16, which rounds activations too, and beside its f32, which computes what ours does. node-llama-cpp must be
# installed where NODE_PATH_DIR points (npm i node-llama-cpp). Prints medians and ratios. Machines drift: only the ratios of
# one run mean something.
set -euo pipefail
slm_dir=$1 gguf_dir=$2 rounds=${3:-5} threads=${4:-1}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
peer=${NODE_PATH_DIR:-$here}
candle=$root/target/candle-peer/candle-peer
lines=$(mktemp)
cp "$here/llama.mjs" "$peer/.llama-peer.mjs"
for _ in $(seq "$rounds"); do
    for type in q8_0 q4_0 bf16 f32; do
        echo "ours $type $("$root/target/release/slm" bench "$slm_dir/smol-$type.slm" -p 512 -n 24 -r 1 -t "$threads" --json)" >>"$lines"
        echo "llama.cpp $type $(node "$peer/.llama-peer.mjs" "$gguf_dir/peer-$type.gguf" "$threads" 512 24)" >>"$lines"
        [ ! -x "$candle" ] || [ $type = bf16 ] || echo "candle $type $("$candle" "$gguf_dir/peer-$type.gguf" 512 24 "$threads")" >>"$lines"
    done
done
python3 - "$lines" <<'PY'
import json, statistics, sys
rows = {}
for line in open(sys.argv[1]):
    who, kind, text = line.split(" ", 2)
    o = json.loads(text)
    if who == "ours":
        r = o["results"][0]
        values = (r["decode"][0]["tokens_per_second"], r["prefill_tokens_per_second"], o["load_seconds"], r["decode"][0]["share_of_read_limit"])
    else:
        values = (o["decode_tokens_per_second"], o["prefill_tokens_per_second"], o["load_seconds"], 0)
    rows.setdefault((kind, who), []).append(values)
print(f"{'type':6}{'peer':15}{'decode':>9}{'peer':>9}{'ratio':>8}{'limit':>7}{'prefill':>10}{'peer':>9}{'ratio':>8}{'load':>8}{'peer':>8}")
compared = [(kind, peer, kind) for kind in ("q8_0", "q4_0", "bf16", "f32") for peer in ("llama.cpp", "candle")]
compared.insert(5, ("bf16", "llama.cpp", "f32"))
for kind, peer, theirs in compared:
    if (theirs, peer) not in rows:
        continue
    a, b = ([statistics.median(v) for v in zip(*rows[key])] for key in ((kind, "ours"), (theirs, peer)))
    # Ratios within a round, then their median: both see the same minute.
    pairs = list(zip(rows[kind, "ours"], rows[theirs, peer]))
    decode, prefill = (statistics.median(x[i] / y[i] for x, y in pairs) for i in (0, 1))
    print(f"{kind:6}{peer + ' ' + theirs:15}{a[0]:9.1f}{b[0]:9.1f}{decode:8.2f}{a[3]:7.0%}{a[1]:10.1f}{b[1]:9.1f}{prefill:8.2f}{a[2]:8.3f}{b[2]:8.3f}")
PY
