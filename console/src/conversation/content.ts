// What is in a message: text, or parts of several kinds. Hostile input, all of it. Pure.

import type { AnyMessage } from "../untrusted.ts";

/** A part of a message. */
export type Part =
  | { readonly kind: "text"; readonly text: string }
  /** An image, a file, …: named, not loaded. */
  | { readonly kind: "file"; readonly what: string; readonly name: string; readonly url: string | undefined }
  | { readonly kind: "other"; readonly value: unknown };

export function partsOf({ content }: AnyMessage): readonly Part[] {
  if (content === undefined || content === null || content === "") return [];
  if (typeof content === "string") return [{ kind: "text", text: content }];
  if (!Array.isArray(content)) return [{ kind: "other", value: content }];
  return content.map(partOf);
}

/** All text of a message. */
export function textOf(message: AnyMessage): string {
  const texts = partsOf(message).map((part) => (part.kind === "text" ? part.text : ""));
  return texts.filter(Boolean).join("\n\n");
}

const FILES: Readonly<Record<string, string>> = {
  image: "Image",
  image_url: "Image",
  audio: "Audio",
  input_audio: "Audio",
  video: "Video",
  document: "Document",
  file: "File",
  binary: "File",
};

function partOf(value: unknown): Part {
  if (typeof value === "string") return { kind: "text", text: value };
  const part = members(value);
  if (part.type === "text" && typeof part.text === "string") return { kind: "text", text: part.text };
  const kind = word(part.type) ?? "";
  const what = Object.hasOwn(FILES, kind) ? FILES[kind] : undefined;
  if (what === undefined) return { kind: "other", value };
  const source = members(part.source);
  const type = word(part.mimeType) ?? word(source.mimeType);
  const name = word(part.filename) ?? word(members(part.file).filename) ?? type;
  const isImage = what === "Image" || type?.startsWith("image/");
  const url =
    word(part.url) ?? word(members(part.image_url).url) ?? (source.type === "url" ? word(source.value) : undefined);
  return { kind: "file", what: isImage ? "Image" : what, name: name ?? "", url };
}

function members(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function word(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
