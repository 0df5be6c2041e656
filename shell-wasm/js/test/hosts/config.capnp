using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (services = [(name = "main", worker = (
  modules = [
    (name = "worker.js", esModule = embed "worker.js"),
    (name = "tinyrustlm.js", esModule = embed "tinyrustlm.js"),
    (name = "tinyrustlm.wasm", wasm = embed "tinyrustlm.wasm"),
    (name = "model.slm", data = embed "model.slm"),
  ],
  compatibilityDate = "2025-01-01",
))]);
