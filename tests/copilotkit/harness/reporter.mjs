// The results of node:test for `main.rs`: one line per case, followed by its failure, and the totals at the end.

const indented = (text) => text.split("\n").map((line) => `    ${line}`).join("\n");

export default async function* (source) {
  const sum = { passed: 0, failed: 0, skipped: 0 };
  for await (const { type, data } of source) {
    const suite = data?.details?.type === "suite";
    if (type === "test:pass" && !suite) {
      const outcome = data.skip === undefined ? "passed" : "skipped";
      sum[outcome]++;
      yield `${outcome}: ${data.name} (${Math.round(data.details.duration_ms)} ms)\n`;
    } else if (type === "test:fail") {
      // A suite also fails with its cases; a failure of its own means that it could not begin or end.
      const { failureType, cause } = data.details.error;
      if (failureType === "subtestsFailed") continue;
      sum.failed++;
      yield `FAILED: ${data.name}\n${indented(cause?.stack ?? String(cause ?? data.details.error))}\n`;
    } else if (type === "test:stderr" || type === "test:stdout") {
      yield indented(data.message);
    }
  }
  yield `${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped\n`;
}
