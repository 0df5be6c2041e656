// Prefill and decode rates of llama.cpp on the CPU: node llama.mjs MODEL.gguf THREADS PROMPT TOKENS
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const [file, threads, prompt, tokens] = [process.argv[2], ...process.argv.slice(3).map(Number)];
const start = performance.now();
const llama = await getLlama({ gpu: false, maxThreads: threads, build: "never", logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath: file });
const loaded = performance.now();
const context = await model.createContext({ contextSize: prompt + tokens + 64, batchSize: 512, threads });
const sequence = context.getSequence();
const ids = Array.from({ length: prompt }, (_, i) => (i * 2654435761) % 49152);
const cpu = process.cpuUsage();
const before = performance.now();
await sequence.evaluateWithoutGeneratingNewTokens(ids);
const prefilled = performance.now();
const prefillCpu = process.cpuUsage(cpu).user / 1e6;
await sequence.eraseContextTokenRanges([{ start: 1, end: prompt }]);
const mark = process.cpuUsage();
const times = [];
let last = performance.now();
for await (const _ of sequence.evaluate([5], { temperature: 0, yieldEogToken: true })) {
    const now = performance.now();
    times.push(now - last);
    last = now;
    if (times.length > tokens) break;
}
const decodeCpu = process.cpuUsage(mark).user / 1e6;
times.sort((a, b) => a - b);
console.log(JSON.stringify({
    load_seconds: (loaded - start) / 1000,
    prefill_tokens_per_second: prompt / ((prefilled - before) / 1000),
    decode_tokens_per_second: 1000 / times[times.length >> 1],
    prefill_tokens_per_cpu_second: prompt / prefillCpu,
    decode_tokens_per_cpu_second: times.length / decodeCpu,
    peak_bytes: process.resourceUsage().maxRSS * 1024,
}));
process.exit(0);
