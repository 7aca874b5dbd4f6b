import { count } from "../time.ts";

/** Names that agents give to tokens that went in and came out. */
const IN = ["inputTokens", "input_tokens", "promptTokens", "prompt_tokens"];
const OUT = ["outputTokens", "output_tokens", "completionTokens", "completion_tokens"];

/** What a run has used, in a few words, and all that was said of it; undefined if nothing was. */
export function usageOf(
  usage: readonly unknown[] | null,
): { readonly text: string; readonly title: string } | undefined {
  if (!usage || usage.length === 0) return undefined;
  const title = JSON.stringify(usage, null, 1).slice(0, 2_000);
  const [given, made] = [sum(usage, IN), sum(usage, OUT)];
  const known = [given !== undefined && `${count(given)} in`, made !== undefined && `${count(made)} out`];
  const text = known.filter(Boolean).join(", ");
  return { text: text ? `tokens ${text}` : "usage", title };
}

function sum(usage: readonly unknown[], names: readonly string[]): number | undefined {
  let total: number | undefined;
  for (const entry of usage) {
    if (typeof entry !== "object" || entry === null) continue;
    const members = entry as Readonly<Record<string, unknown>>;
    const value = names.map((name) => members[name]).find((each) => typeof each === "number");
    if (value !== undefined) total = (total ?? 0) + value;
  }
  return total;
}
