using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "main", worker = .check),
    (name = "internet", network = (allow = ["public", "private"])),
  ],
);

const check :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "worker.js")],
  compatibilityDate = "2026-01-01",
  bindings = [(name = "OPTIONS", json = embed "options.json")],
);
