// Models in Cache Storage, by checksum: an address remembers which model it gave, and a model is stored once.
// A second load of the same address makes no request. Hosts without Cache Storage simply load again.

const STORE = 'tinyrustlm-v1';
const modelKey = (checksum) => `https://models.tinyrustlm.invalid/${checksum}.slm`;
const addressKey = (address) => `https://addresses.tinyrustlm.invalid/?${encodeURIComponent(address)}`;
/** How much of the module's memory one step of writing copies. */
const STEP_BYTES = 1 << 20;

const store = async () => {
  try {
    return typeof caches === 'undefined' ? undefined : await caches.open(STORE);
  } catch {
    return undefined; // file:// pages and private windows may refuse
  }
};

const absolute = (source) => {
  const url = typeof source === 'string' ? source : (source.url ?? source.href);
  return typeof location === 'undefined' ? url : new URL(url, location.href).href;
};

/** The stored response of an address or a checksum, or undefined. */
export async function cached(source, checksum) {
  const cache = await store();
  if (!cache) return undefined;
  const known = checksum ?? (await (await cache.match(addressKey(absolute(source))))?.text());
  return known ? cache.match(modelKey(known)) : undefined;
}

/** Stores a model that lies in memory: `read(at, size)` gives a view on its bytes. */
export async function keepInCache(source, checksum, length, read) {
  const cache = await store();
  if (!cache) return;
  if (!(await cache.match(modelKey(checksum)))) {
    let at = 0;
    const body = new ReadableStream({
      pull(controller) {
        const size = Math.min(STEP_BYTES, length - at);
        controller.enqueue(read(at, size).slice());
        at += size;
        if (at === length) controller.close();
      },
    });
    await cache.put(modelKey(checksum), new Response(body, { headers: { 'content-type': 'application/octet-stream' } }));
  }
  await cache.put(addressKey(absolute(source)), new Response(checksum));
}

/** The checksums of all stored models. */
export async function cachedModels() {
  const cache = await store();
  if (!cache) return [];
  const urls = (await cache.keys()).map((request) => request.url);
  return urls.filter((url) => url.startsWith(modelKey('').slice(0, -4))).map((url) => url.slice(url.lastIndexOf('/') + 1, -4));
}

/** Forgets all stored models, or one by its checksum. */
export async function clearCache(checksum) {
  if (typeof caches === 'undefined') return;
  if (checksum === undefined) await caches.delete(STORE);
  else await (await store())?.delete(modelKey(checksum));
}
