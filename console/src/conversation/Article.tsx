import type { ReactNode } from "react";
import type { AnyMessage } from "../untrusted.ts";
import { textOf } from "./content.ts";
import { CopyButton } from "./CopyButton.tsx";

/** A message with its author, its content, and buttons: one that copies it, and others. */
export function Article(props: {
  readonly label: string;
  readonly message: AnyMessage;
  readonly className: string;
  readonly children: ReactNode;
  readonly tools?: ReactNode;
}) {
  const { label, message, className, children, tools } = props;
  const text = textOf(message);
  return (
    <article className={`message ${className}`} aria-label={`Message from ${label}`} data-message-id={message.id}>
      {children}
      {text && (
        <div className="message-tools">
          <CopyButton text={text} label="Copy the message" />
          {tools}
        </div>
      )}
    </article>
  );
}
