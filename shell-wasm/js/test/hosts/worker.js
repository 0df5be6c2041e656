// workerd: the module comes compiled, the model as bytes; nothing can be fetched or compiled.
import wasm from 'tinyrustlm.wasm';
import model from 'model.slm';
import { load } from 'tinyrustlm.js';

export default {
  async test() {
    const loaded = await load(model, { wasm, context: 64 });
    const { ids } = await loaded.generate([72, 101, 108, 108, 111], { temperature: 1, seed: 9, maxTokens: 24, ignoreEos: true }).run();
    console.log(`IDS ${ids.join(' ')}`);
  },
};
