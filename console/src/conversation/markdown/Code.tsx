import { CopyButton } from "../CopyButton.tsx";

/** A block of code, with its language and a button that copies it. */
export function Code({ text, language }: { readonly text: string; readonly language: string }) {
  return (
    <figure className="code">
      <figcaption>
        <span>{language || "text"}</span>
        <CopyButton text={text} label="Copy the code" />
      </figcaption>
      <pre tabIndex={0} dir="ltr">
        <code>{text}</code>
      </pre>
    </figure>
  );
}
