const SAFE = ["http:", "https:", "mailto:"];

/** Where a link of a message may lead; undefined if it is no absolute address of the web or of mail. */
export function safeHref(href: string): string | undefined {
  // Browsers pass over these within a scheme.
  const cleaned = unescaped(href).replace(/[\u0000-\u0020\u007f]/g, "");
  if (!URL.canParse(cleaned)) return undefined;
  const url = new URL(cleaned);
  // An address that shows another host than it leads to.
  if (!SAFE.includes(url.protocol) || url.username || url.password) return undefined;
  return url.href;
}

const NAMED: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  copy: "©",
  reg: "®",
  trade: "™",
  mdash: "—",
  ndash: "–",
  hellip: "…",
  bull: "•",
  middot: "·",
  times: "×",
  rarr: "→",
  larr: "←",
  euro: "€",
  deg: "°",
  laquo: "«",
  raquo: "»",
};

/** A text with the references to characters that people and models use, as characters. */
export function unescaped(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([a-zA-Z]+));/g, (whole, decimal, hex, name) => {
    if (name !== undefined) return Object.hasOwn(NAMED, name) ? NAMED[name]! : whole;
    const code = decimal !== undefined ? Number(decimal) : Number.parseInt(hex, 16);
    const isNone = code === 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff);
    return isNone ? "\ufffd" : String.fromCodePoint(code);
  });
}
