import { defineConfig } from "vitest/config";
import Counts from "./test/reporter.js";

export default defineConfig({
  test: {
    include: ["test/**/*.test.{ts,tsx}"],
    reporters: ["default", new Counts()],
    // Two cores, and each file starts servers of its own.
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // What is skipped or left alone by mistake must not look like a success.
    allowOnly: false,
  },
});
