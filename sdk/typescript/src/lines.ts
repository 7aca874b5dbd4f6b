import { ConnectionError } from "./errors.js";
import { throwIfAborted } from "./platform.js";

/** The lines of a response body as they arrive. Leaving the iterator cancels the response. */
export async function* linesOf(response: Response, signal: AbortSignal | undefined): AsyncGenerator<string, undefined> {
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  /** The incomplete line, in pieces: a large event arrives in many chunks. */
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
    throwIfAborted(signal);
    throw new ConnectionError("the response was cut off", { cause: error });
  } finally {
    await reader.cancel().catch(() => {});
  }
}
