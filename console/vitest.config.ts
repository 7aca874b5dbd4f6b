import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import Counts from "../sdk/typescript/test/reporter.ts";

export default defineConfig({
  // The package is linked and has a React of its own beside it, for its tests.
  resolve: { alias: { react: fileURLToPath(new URL("node_modules/react", import.meta.url)) } },
  test: {
    include: ["test/**/*.test.{ts,tsx}"],
    // Two cores, and each file of the browser's has a server and a browser of its own.
    maxWorkers: 2,
    testTimeout: 90_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 20_000 } },
    reporters: ["default", new Counts()],
    // What is skipped or left alone by mistake must not look like a success.
    allowOnly: false,
  },
});
