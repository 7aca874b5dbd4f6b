import { setTimeout as sleep } from "node:timers/promises";

/** A model that needs no key: it tells a story with the user's words, one word at a time. */
export async function* answer(text: string, signal: AbortSignal): AsyncGenerator<string> {
  const lines = ["Once upon a time somebody said", `“${text}”`, "and everybody listened.", "It was told again and again:"];
  const story = `${lines.join(" ")} ${Array.from({ length: 40 }, (_, time) => `${time + 1},`).join(" ")} the end.`;
  for (const word of story.split(/(?<= )/)) {
    await sleep(50, undefined, { signal });
    yield word;
  }
}
