import { Paperclip } from "lucide-react";
import type { AnyMessage } from "../untrusted.ts";
import { partsOf } from "./content.ts";
import { Json } from "./Json.tsx";
import { Markdown } from "./markdown/Markdown.tsx";
import { ImageLink } from "./markdown/tokens.tsx";
import { Plain } from "./Plain.tsx";

/** What is in a message: texts, all of them and as markdown unless they are `plain`, and chips for everything that would have to be loaded. */
export function Parts(props: {
  readonly message: AnyMessage;
  readonly isGrowing?: boolean;
  readonly isPlain?: boolean;
}) {
  const { message, isGrowing = false, isPlain = false } = props;
  return partsOf(message).map((part, at) => {
    if (part.kind === "other") return <Json key={at} value={part.value} label="Part of the message" />;
    if (part.kind === "text") {
      return isPlain ? (
        <Plain key={at} text={part.text} />
      ) : (
        <Markdown key={at} text={part.text} isGrowing={isGrowing} />
      );
    }
    if (part.what === "Image" && part.url) return <ImageLink key={at} href={part.url} text={part.name || "Image"} />;
    return (
      <span key={at} className="chip">
        <Paperclip aria-hidden="true" /> {[part.what, part.name].filter(Boolean).join(" · ")}
      </span>
    );
  });
}
