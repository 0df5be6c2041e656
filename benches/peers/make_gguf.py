"""GGUF files of one model in several types, so that peers run on the same values: make_gguf.py SOURCE.gguf OUT_DIR

Takes the metadata over and stores every matrix anew as F32, BF16, Q8_0 and Q4_0 (Q4_0 keeps the embedding in Q8_0, as our
files do). Needs the Python package gguf.
"""
import sys

import gguf
import numpy as np

source, out = sys.argv[1:3]
reader = gguf.GGUFReader(source)
Q = gguf.GGMLQuantizationType
for name, kind in [("f32", Q.F32), ("bf16", Q.BF16), ("q8_0", Q.Q8_0), ("q4_0", Q.Q4_0)]:
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(f"{out}/peer-{name}.gguf", architecture)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kinds = field.types
        sub = kinds[-1] if kinds[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kinds[0], sub_type=sub)
    for tensor in reader.tensors:
        data = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        data = data.reshape(tuple(int(n) for n in reversed(tensor.shape)))
        to = Q.F32 if data.ndim == 1 else kind
        if tensor.name == "token_embd.weight" and kind == Q.Q4_0:
            to = Q.Q8_0
        writer.add_tensor(tensor.name, gguf.quants.quantize(data, to), raw_dtype=to)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{out}/peer-{name}.gguf")
