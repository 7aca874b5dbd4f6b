// Parts of a stream of the AI SDK: `fullStream` of `streamText` in `ai` 6 and 7, which is also `stream` in 7.

import { messageOf } from "../errors.js";
import type { NewEvent } from "../types.js";
import { failed, isItem, type Item, textOf } from "./source.js";
import { UiChunks } from "./ui-chunks.js";

/** Reads each part as the chunk that the SDK would make of it. */
export class TextParts extends UiChunks {
  override of(part: Item): NewEvent[] | undefined {
    const { type, id, toolCallId } = part;
    switch (type) {
      case "text-delta":
      case "reasoning-delta":
        return super.of({ type, id, delta: part["text"] });
      case "tool-input-start":
        return super.of({ ...part, toolCallId: id });
      case "tool-input-delta":
        return super.of({ type, toolCallId: id, inputTextDelta: part["delta"] });
      case "tool-call": {
        if (!part["invalid"]) return super.of({ ...part, type: "tool-input-available" });
        return super.of({ ...part, type: "tool-input-error", errorText: errorText(part["error"]) });
      }
      case "tool-result":
        return super.of({ ...part, type: "tool-output-available" });
      case "tool-error":
        return super.of({ type: "tool-output-error", toolCallId, errorText: errorText(part["error"]) });
      case "tool-approval-request": {
        const call = part["toolCall"];
        return super.of({ ...part, toolCallId: isItem(call) ? call["toolCallId"] : toolCallId });
      }
      case "source":
        return super.of({
          ...part,
          type: part["sourceType"] === "document" ? "source-document" : "source-url",
          sourceId: id,
        });
      case "file":
      case "reasoning-file":
        return super.of({ type, ...fileOf(part["file"]) });
      // Ends of arguments come with the whole call; a raw chunk repeats what the parts say.
      case "tool-input-end":
      case "raw":
        return [];
      case "error":
        throw failed(part["error"]);
      case "start":
      case "finish":
        return [];
    }
    return super.of(part);
  }
}

function errorText(error: unknown): string {
  return isItem(error) && !(error instanceof Error) ? textOf(error["message"]) : messageOf(error);
}

/** A generated file as the chunk of it names it. Its members are getters. */
function fileOf(file: unknown): Item {
  if (!isItem(file)) return {};
  const mediaType = textOf(file["mediaType"]);
  return { mediaType, url: `data:${mediaType};base64,${textOf(file["base64"])}` };
}
