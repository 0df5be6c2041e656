// JavaScriptCore's shell: no modules of ours, no TextDecoder, no console. Arguments: module, model.
const bytes = (path) => new Uint8Array(readFile(path, 'binary'));
const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes(arguments[0])), {});
const view = (ptr, length) => new Uint8Array(exports.memory.buffer, ptr >>> 0, length);
const check = (code) => {
  if (code !== 0) throw new Error(`code ${code}`);
};
function put(data) {
  const ptr = exports.alloc(data.length);
  view(ptr, data.length).set(data);
  return ptr;
}
const model = bytes(arguments[1]);
check(exports.set_context(64));
check(exports.load_model(put(model), model.length));
const profile = new DataView(new ArrayBuffer(96));
[1, 1, 0, 1, 1, 0, 0].forEach((value, index) => profile.setFloat64(8 * index, value, true));
profile.setBigUint64(56, 9n, true);
profile.setUint32(76, 16, true);
check(exports.set_sampling_profile(put(new Uint8Array(profile.buffer)), 96));
const prompt = new Uint8Array(Uint32Array.from([72, 101, 108, 108, 111]).buffer);
check(exports.start_generation(2, put(prompt), prompt.length, 24));
const ids = [];
for (;;) {
  check(exports.generate_next_token());
  const event = new DataView(exports.memory.buffer, exports.event_ptr() >>> 0, 24);
  if (event.getUint32(0, true) === 1) ids.push(event.getUint32(4, true));
  if (event.getUint32(12, true) !== 0) break;
}
print(ids.join(' '));
