import type { Reporter, TestModule } from "vitest/node";

/** Prints the last line in the format of `cargo test`, since `.ci/run` counts both. */
export default class Counts implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    let passed = 0;
    // A file that cannot be loaded, or an error outside of any test, is a failure as well.
    let failed = errors.length;
    for (const module of modules) {
      const tests = [...module.children.allTests()];
      passed += tests.filter((test) => test.result().state === "passed").length;
      failed += tests.filter((test) => test.result().state === "failed").length;
      if (tests.length === 0 || module.errors().length > 0) failed += 1;
    }
    console.log(`test result: ${failed === 0 ? "ok" : "FAILED"}. ${passed} passed; ${failed} failed`);
  }
}
