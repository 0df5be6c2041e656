#!/usr/bin/env python3
"""Compares a run elsewhere with native logits: compare.py SLM MODEL ID,ID,... SHA256 [FIRST]

Every id from the one number FIRST on (6, after the firmware's prompt) must be the native argmax of those before it, and
SHA256 the digest of the native logits after the last.
"""

import json
import subprocess
import sys


def main() -> None:
    slm, model, ids, digest = sys.argv[1:5]
    first = int(sys.argv[5]) if len(sys.argv) > 5 else 6
    ids = [int(word) for word in ids.split(",")]
    lines = "".join(json.dumps({"ids": ids[:end]}) + "\n" for end in range(first, len(ids) + 1))
    run = subprocess.run([slm, "logits", model], input=lines, capture_output=True, text=True, check=True)
    native = [json.loads(line) for line in run.stdout.splitlines()]
    if len(native) != len(ids) - first + 1:
        raise SystemExit(f"{model}: {len(native)} answers")
    for at, answer in zip(range(first, len(ids)), native):
        if answer["argmax"] != ids[at]:
            raise SystemExit(f"{model}: token {at} is {ids[at]}, native {answer['argmax']}")
    if native[-1]["sha256"] != digest:
        raise SystemExit(f"{model}: sha256 {digest}, native {native[-1]['sha256']}")
    print(f"{model.rsplit('/', 1)[-1]}: {len(ids) - first} tokens and the digest {digest[:16]} equal")


if __name__ == "__main__":
    main()
