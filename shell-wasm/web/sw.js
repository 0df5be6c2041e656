// Keeps the page's own files, so that it opens without a network. Models are kept by the library, not here.

importScripts('lib/files.js');
const { version, files } = self.PAGE;
const STORE = `tinyrustlm-page-${version}`;

addEventListener('install', (event) => {
  // 'reload': what the browser's cache holds may belong to another version.
  const fresh = files.map((file) => new Request(file, { cache: 'reload' }));
  event.waitUntil(caches.open(STORE).then((cache) => cache.addAll(fresh)).then(() => skipWaiting()));
});

addEventListener('activate', (event) => {
  const old = (name) => name.startsWith('tinyrustlm-page-') && name !== STORE;
  event.waitUntil(
    caches.keys().then((names) => Promise.all(names.filter(old).map((name) => caches.delete(name)))).then(() => clients.claim()),
  );
});

addEventListener('fetch', (event) => {
  if (event.request.method !== 'GET' || new URL(event.request.url).origin !== location.origin) return;
  event.respondWith(
    caches.open(STORE).then((cache) => cache.match(event.request, { ignoreSearch: true })).then((kept) => kept ?? fetch(event.request)),
  );
});
