import { Image } from "lucide-react";
import type { MarkedToken, Token, Tokens } from "marked";
import { Fragment, type ReactNode } from "react";
import { Code } from "./Code.tsx";
import { safeHref, unescaped } from "./links.ts";

/** Deeper levels are shown as they are written. */
const MAX_LEVELS = 40;

/** The page's own heading is above those of a message. */
const FIRST_HEADING = 2;

/** A block, and what is in it. What is not known is shown as it is written. `top` is the depth of the text's highest heading. */
export function Block(props: { readonly token: Token; readonly level?: number; readonly top?: number }): ReactNode {
  const { token: given, level = 0, top = 1 } = props;
  if (level > MAX_LEVELS) return given.raw;
  const token = given as MarkedToken;
  const within = (tokens: readonly Token[] | undefined) => <Inline tokens={tokens} level={level + 1} />;
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading": {
      const Heading = `h${Math.min(6, Math.max(0, token.depth - top) + FIRST_HEADING)}` as "h2";
      return <Heading data-depth={token.depth}>{within(token.tokens)}</Heading>;
    }
    case "paragraph":
      return <p>{within(token.tokens)}</p>;
    case "blockquote":
      return (
        <blockquote>
          <Inside tokens={token.tokens} level={level + 1} />
        </blockquote>
      );
    case "code":
      return <Code text={token.text} language={languageOf(token.lang)} />;
    case "hr":
      return <hr />;
    case "list":
      return <ListBlock list={token} level={level} />;
    case "table":
      return <TableBlock table={token} level={level} />;
    case "html":
      return <p>{inlineHtml(token.raw.trimEnd())}</p>;
    case "text":
      return token.tokens ? within(token.tokens) : unescaped(token.text);
    case "checkbox":
      return <InlineToken token={token} level={level} />;
    default:
      return <p className="plain">{given.raw}</p>;
  }
}

function Inside({ tokens, level }: { readonly tokens: readonly Token[]; readonly level: number }): ReactNode {
  return tokens.map((token, at) => <Block key={at} token={token} level={level} />);
}

function ListBlock({ list, level }: { readonly list: Tokens.List; readonly level: number }): ReactNode {
  const items = list.items.map((item, at) => (
    <li key={at} className={item.task ? "markdown-task" : undefined}>
      <Inside tokens={item.tokens} level={level + 1} />
    </li>
  ));
  return list.ordered ? <ol start={list.start === "" ? 1 : list.start}>{items}</ol> : <ul>{items}</ul>;
}

function TableBlock({ table, level }: { readonly table: Tokens.Table; readonly level: number }): ReactNode {
  const cells = (row: readonly Tokens.TableCell[], Cell: "th" | "td") =>
    row.map((cell, at) => (
      <Cell key={at} style={cell.align ? { textAlign: cell.align } : undefined}>
        <Inline tokens={cell.tokens} level={level + 1} />
      </Cell>
    ));
  return (
    <div className="scrolling" role="region" aria-label="Table" tabIndex={0}>
      <table>
        <thead>
          <tr>{cells(table.header, "th")}</tr>
        </thead>
        <tbody>
          {table.rows.map((row, at) => (
            <tr key={at}>{cells(row, "td")}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Inline(props: { readonly tokens: readonly Token[] | undefined; readonly level: number }): ReactNode {
  return props.tokens?.map((token, at) => <InlineToken key={at} token={token} level={props.level} />);
}

function InlineToken({ token: given, level }: { readonly token: Token; readonly level: number }): ReactNode {
  if (level > MAX_LEVELS) return given.raw;
  const token = given as MarkedToken;
  const within = (tokens: readonly Token[] | undefined) => <Inline tokens={tokens} level={level + 1} />;
  switch (token.type) {
    case "strong":
      return <strong>{within(token.tokens)}</strong>;
    case "em":
      return <em>{within(token.tokens)}</em>;
    case "del":
      return <del>{within(token.tokens)}</del>;
    case "codespan":
      return <code>{token.text}</code>;
    case "br":
      return <br />;
    case "escape":
      return token.text;
    case "html":
      return inlineHtml(token.raw);
    case "link":
      return (
        <Link href={token.href} title={token.title}>
          {within(token.tokens)}
        </Link>
      );
    case "image":
      return <ImageLink href={token.href} text={unescaped(token.text)} />;
    case "checkbox":
      return (
        <input type="checkbox" checked={token.checked} disabled readOnly aria-label={token.checked ? "Done" : "Open"} />
      );
    case "text":
      return token.tokens ? within(token.tokens) : unescaped(token.text);
    default:
      return given.raw;
  }
}

/** Opens elsewhere; its tooltip says where, since the text of a link may lie. */
function Link(props: {
  readonly href: string;
  readonly title?: string | null | undefined;
  readonly children: ReactNode;
}) {
  const href = safeHref(props.href);
  if (href === undefined) return <span title="This link is not safe to open">{props.children}</span>;
  return (
    <a
      href={href}
      title={props.title ? `${unescaped(props.title)} (${href})` : href}
      target="_blank"
      rel="noopener noreferrer"
    >
      {props.children}
    </a>
  );
}

/** An image of a message is not loaded: its address could carry away what the conversation holds. */
export function ImageLink({ href, text }: { readonly href: string; readonly text: string }) {
  const safe = safeHref(href);
  const label = (
    <>
      <Image aria-hidden="true" /> {text || "Image"}
    </>
  );
  if (safe === undefined) return <span className="chip">{label}</span>;
  return (
    <a className="chip" href={safe} title={`Open the image (${safe})`} target="_blank" rel="noopener noreferrer">
      {label}
    </a>
  );
}

/** HTML is text, but for the line breaks that models write into tables. */
function inlineHtml(raw: string): ReactNode {
  const lines = raw.split(/<br\s*\/?>/i);
  return lines.map((line, at) => (
    <Fragment key={at}>
      {at > 0 && <br />}
      {line}
    </Fragment>
  ));
}

/** The first word after the fence. */
function languageOf(info: string | undefined): string {
  return unescaped(info ?? "").match(/^[^\s{,]{1,40}/)?.[0] ?? "";
}
