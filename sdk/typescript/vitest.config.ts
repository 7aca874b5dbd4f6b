import { configDefaults, defineConfig } from "vitest/config";
import Counts from "./test/reporter.js";

// Tests that take as long as many others: `make test-full` sets FULL.
const full = "test/full/**";
// Tests of pages: each file has a document of its own, which React keeps state about.
const pages = "test/react/**";

// Files of a project, and whether each of them imports everything for itself.
const project = (name: string, include: string, isolate: boolean, except: string[] = []) => ({
  extends: true as const,
  test: { name, include: [include], exclude: [...configDefaults.exclude, ...except], isolate },
});

export default defineConfig({
  test: {
    projects: process.env["FULL"]
      ? [project("full", `${full}/*.test.ts`, true)]
      : [
          project("pages", `${pages}/*.test.{ts,tsx}`, true),
          project("package", "test/**/*.test.{ts,tsx}", false, [full, pages]),
        ],
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
