import { configDefaults, defineConfig } from "vitest/config";
import Counts from "./test/reporter.js";

// Tests that take as long as many others: `make test-full` sets FULL.
const full = "test/full/**";

export default defineConfig({
  test: {
    include: [process.env["FULL"] ? `${full}/*.test.ts` : "test/**/*.test.{ts,tsx}"],
    exclude: process.env["FULL"] ? configDefaults.exclude : [...configDefaults.exclude, full],
    reporters: ["default", new Counts()],
    // Two cores; half of the time is waiting for leases, breaks and retries.
    maxWorkers: 4,
    // No test takes as long on a free machine; one that is busy with something else may need it.
    testTimeout: 90_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
    // What is skipped or left alone by mistake must not look like a success.
    allowOnly: false,
  },
});
