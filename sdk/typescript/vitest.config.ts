import { defineConfig } from "vitest/config";
import Counts from "./test/reporter.js";

export default defineConfig({
  test: {
    include: ["test/**/*.test.{ts,tsx}"],
    reporters: ["default", new Counts()],
    // Two cores, and each file starts servers of its own.
    maxWorkers: 2,
    // No test takes as long on a free machine; one that is busy with something else may need it.
    testTimeout: 90_000,
    hookTimeout: 60_000,
    // What is skipped or left alone by mistake must not look like a success.
    allowOnly: false,
  },
});
