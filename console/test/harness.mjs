// The tests' harness, for scripts.

import { fileURLToPath } from "node:url";
import { createServer } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Calls `use` with what loads a module of TypeScript by its path in this package. */
export async function withHarness(use) {
  const vite = await createServer({
    root,
    configFile: false,
    logLevel: "error",
    server: { middlewareMode: true, ws: false, watch: null },
    optimizeDeps: { noDiscovery: true },
    appType: "custom",
  });
  try {
    await use((path) => vite.ssrLoadModule(path));
  } finally {
    await vite.close();
  }
}
