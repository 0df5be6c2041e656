// A host with ES modules: load the package, generate, print the ids. Arguments: package folder, model.
const args = globalThis.Deno ? Deno.args : process.argv.slice(2);
const { load } = await import(new URL(`file://${args[0]}/dist/tinyrustlm.js`));
const model = await load(args[1], { context: 64 });
const { ids } = await model.generate([72, 101, 108, 108, 111], { temperature: 1, seed: 9, maxTokens: 24, ignoreEos: true }).run();
console.log(ids.join(' '));
