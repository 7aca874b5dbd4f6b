import { ConnectionError } from "./errors.js";

/** The lines of an answer, as they come. Leaving them ends the answer. */
export async function* linesOf(response: Response, signal: AbortSignal | undefined): AsyncGenerator<string, undefined> {
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  /** The line that has not ended yet, in pieces: an event may be large, and come in many. */
  let pieces: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return undefined;
      const lines = decoder.decode(value, { stream: true }).split("\n");
      const rest = lines.pop() ?? "";
      for (const line of lines) {
        pieces.push(line);
        yield pieces.join("");
        pieces = [];
      }
      pieces.push(rest);
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw new ConnectionError("the response was cut off", { cause: error });
  } finally {
    await reader.cancel().catch(() => {});
  }
}
