"""A host without JavaScript: PyPI wasmtime. Arguments: module, model."""

import struct
import sys

from wasmtime import Instance, Module, Store

store = Store()
instance = Instance(store, Module.from_file(store.engine, sys.argv[1]), [])
exports = instance.exports(store)
memory = exports["memory"]


def call(name, *args):
    return exports[name](store, *args)


def check(code):
    assert code == 0, f"code {code}"


def put(data):
    ptr = call("alloc", len(data)) & 0xFFFFFFFF
    memory.write(store, data, ptr)
    return ptr


model = open(sys.argv[2], "rb").read()
check(call("set_context", 64))
check(call("load_model", put(model), len(model)))
check(call("set_sampling_profile", put(struct.pack("<7dQ6I2I", 1, 1, 0, 1, 1, 0, 0, 9, 0, 0, 0, 16, 0, 0, 0, 0)), 96))
prompt = struct.pack("<5I", 72, 101, 108, 108, 111)
check(call("start_generation", 2, put(prompt), len(prompt), 24))
ids = []
while True:
    check(call("generate_next_token"))
    event = memory.read(store, call("event_ptr"), call("event_ptr") + 24)
    kind, token, _, stop, _, _ = struct.unpack("<IIfIII", event)
    if kind == 1:
        ids.append(token)
    if stop:
        break
report = call("get_diagnostics_ptr")
report = struct.unpack("<4IQ5I", memory.read(store, report, report + call("get_diagnostics_len"))[:44])
number, _, _, stage, _, reason, context, prompt_tokens, generated, _ = report
assert (number, stage, reason, context, prompt_tokens, generated) == (0, 4, stop, 64, 5, len(ids)), report
print(*ids)
