// The gallery as a page, the faults of its layout, and its pictures.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";
import type { Page } from "playwright-core";
import type { Chromium } from "../browser/harness/chromium.ts";
import { boxFont } from "./font.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const NOW = "2026-03-02T12:00:00Z";

const HEIGHT = 900;

export const THEMES = ["light", "dark"] as const;
export const WIDTHS = [1440, 390] as const;

/** A theme and a width. */
export interface Show {
  readonly theme: (typeof THEMES)[number];
  readonly width: (typeof WIDTHS)[number];
  /** Every letter is a box, so that the machine's fonts do not matter. */
  readonly isBoxes?: boolean;
}

/** Changes of sources before they are built, by the end of their paths. */
export type Planted = Readonly<Record<string, (source: string) => string>>;

export class Gallery {
  readonly #server: Server;

  /** Builds the gallery from the current source, with the planted changes. */
  static async start(planted: Planted = {}): Promise<Gallery> {
    const { outputFiles } = await esbuild.build({
      absWorkingDir: root,
      entryPoints: { app: "test/gallery/page.tsx" },
      outdir: "gallery",
      bundle: true,
      format: "esm",
      target: ["es2022", "chrome123"],
      jsx: "automatic",
      write: false,
      logLevel: "warning",
      alias: { react: "./node_modules/react" },
      define: { "process.env.NODE_ENV": '"production"', SERVER: "undefined" },
      plugins: [{ name: "planted", setup: (build) => plant(build, planted) }],
    });
    const files = new Map<string, readonly [string, string | Buffer]>([
      ["/", ["text/html", PAGE]],
      ["/boxes", ["text/html", PAGE.replace("</head>", `<style id="boxes">${BOXES}</style></head>`)]],
      ["/boxes.ttf", ["font/ttf", boxFont()]],
      ["/app.js", ["text/javascript", outputFiles.find(({ path }) => path.endsWith(".js"))!.text]],
      ["/app.css", ["text/css", outputFiles.find(({ path }) => path.endsWith(".css"))!.text]],
    ]);
    const server = createServer(({ url = "" }, response) => {
      const [type, body] = files.get(url) ?? ["text/plain", ""];
      response.writeHead(files.has(url) ? 200 : 404, { "content-type": `${type}; charset=utf-8` }).end(body);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new Gallery(server);
  }

  private constructor(server: Server) {
    this.#server = server;
  }

  async open(browser: Chromium, { theme, width, isBoxes = false }: Show): Promise<Page> {
    const { port } = this.#server.address() as AddressInfo;
    const page = await browser.open(
      { url: `http://127.0.0.1:${port}` },
      {
        at: isBoxes ? "boxes" : "",
        viewport: { width, height: HEIGHT },
        colorScheme: theme,
        reducedMotion: "reduce",
        timezoneId: "UTC",
        locale: "en-GB",
        now: NOW,
      },
    );
    await page.locator("[data-cell]").last().waitFor();
    await page.evaluate(() => document.fonts.ready);
    return page;
  }

  async end(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

const PAGE = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Gallery</title><link rel="icon" href="data:,"><link rel="stylesheet" href="app.css"></head>
<body><div id="app"></div><script type="module" src="app.js"></script></body></html>`;

const BOXES = `@font-face { font-family: Boxes; src: url("boxes.ttf") }
:root { --sans: Boxes; --mono: Boxes; font-synthesis: none }
* { text-rendering: geometricPrecision !important }`;

/** Gives a page of boxes the fonts of this machine. */
export async function unboxed(page: Page): Promise<void> {
  await page.evaluate(async () => {
    document.getElementById("boxes")!.remove();
    await document.fonts.ready;
  });
}

function plant(build: esbuild.PluginBuild, planted: Planted): void {
  for (const [end, change] of Object.entries(planted)) {
    const filter = new RegExp(`${end.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`);
    build.onLoad({ filter }, async ({ path }) => {
      const source = await readFile(path, "utf8");
      const contents = change(source);
      if (contents === source) throw new Error(`nothing was planted in ${end}`);
      return { contents, loader: path.endsWith(".css") ? "css" : "tsx" };
    });
  }
}

/**
 * Shows one cell alone, at the top: other cells above would move it by fractions of a pixel, and hidden cells are not painted.
 * Waits until it is as it stays: long texts are laid out when they come near, and find their end. Gives where it is.
 */
const aloneAtRest = async (cell: Element) => {
  document.querySelector("[data-alone]")?.removeAttribute("data-alone");
  cell.setAttribute("data-alone", "");
  const scroller = cell.querySelector(".messages");
  const look = () => `${scroller?.scrollTop} ${scroller?.scrollHeight} ${cell.clientHeight}`;
  let before = "";
  for (let still = 0; still < (scroller ? 10 : 1); still = look() === before ? still + 1 : 0) {
    before = look();
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
  const { left, top, right, bottom } = cell.getBoundingClientRect();
  const [x, y] = [Math.floor(left), Math.floor(top)];
  return { x, y, width: Math.ceil(right) - x, height: Math.ceil(bottom) - y };
};

/** The pictures of cells, by name: of all, or of these. */
export async function pictures(page: Page, only?: ReadonlySet<string>): Promise<ReadonlyMap<string, Buffer>> {
  const found = new Map<string, Buffer>();
  await page.evaluate(() => {
    scrollTo(0, 0);
    document.body.dataset.taken = "";
  });
  for (const cell of await page.$$("[data-cell]")) {
    const name = (await cell.getAttribute("data-cell"))!.replace(/[^a-z0-9]+/gi, "-");
    if (only && !only.has(name)) continue;
    const clip = await cell.evaluate(aloneAtRest);
    // Only cells higher than the window need another window, with a new layout.
    const fullPage = clip.height > HEIGHT;
    found.set(name, await page.screenshot({ clip, animations: "disabled", fullPage }));
  }
  await page.evaluate(() => {
    document.querySelector("[data-alone]")?.removeAttribute("data-alone");
    delete document.body.dataset.taken;
  });
  return found;
}

/** Faults in the layout of the cells, whatever the fonts are: a line for each. */
export const faults = (page: Page): Promise<string[]> =>
  page.evaluate(() => {
    /** Pixels that do not matter: letters are a little higher than their line at times. */
    const SLACK = 4;
    type Box = { left: number; top: number; right: number; bottom: number };
    const inside = (one: Box, { left, top, right, bottom }: Box): Box => ({
      left: Math.max(one.left, left),
      top: Math.max(one.top, top),
      right: Math.min(one.right, right),
      bottom: Math.min(one.bottom, bottom),
    });
    const isSeen = ({ left, top, right, bottom }: Box) => right - left > 1 && bottom - top > 1;
    const found: string[] = [];
    for (const cell of document.querySelectorAll<HTMLElement>("[data-cell]")) {
      const say = (why: string) => found.push(`${cell.dataset.cell}: ${why}`);
      const frame = cell.getBoundingClientRect();
      if (frame.height < 40) say(`is ${frame.height} px high`);
      if (cell.scrollWidth > cell.clientWidth + 1) say(`is ${cell.scrollWidth - cell.clientWidth} px too wide`);
      const lines: { readonly node: Node; readonly text: string; readonly box: Box }[] = [];
      const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const parent = node.parentElement!;
        const text = node.textContent!.trim().slice(0, 40);
        if (!text || parent.closest(".visually-hidden, option, title")) continue;
        if (!parent.checkVisibility({ contentVisibilityAuto: true, opacityProperty: true })) continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        for (const rect of range.getClientRects()) {
          let box: Box = inside(rect, rect);
          for (let up: Element = parent; up !== cell && isSeen(box); up = up.parentElement!) {
            const style = getComputedStyle(up);
            if (style.display === "inline" || style.display === "contents") continue;
            const own = up.getBoundingClientRect();
            if (style.overflow !== "visible") box = inside(box, own);
            else if (
              box.left < own.left - SLACK ||
              box.top < own.top - SLACK ||
              box.right > own.right + SLACK ||
              box.bottom > own.bottom + SLACK
            ) {
              say(`“${text}” is not inside of ${up.tagName.toLowerCase()}.${up.getAttribute("class")}`);
              break;
            }
          }
          if (isSeen(box)) lines.push({ node, text, box });
        }
      }
      for (const [at, one] of lines.entries()) {
        for (const other of lines.slice(at + 1)) {
          if (one.node === other.node) continue;
          const { left, top, right, bottom } = inside(one.box, other.box);
          const lower = Math.min(one.box.bottom - one.box.top, other.box.bottom - other.box.top);
          if (right - left > 2 && bottom - top > lower / 3) say(`“${other.text}” lies over “${one.text}”`);
        }
      }
    }
    return [...new Set(found)];
  });

/** Pixels in which two pictures differ; all of them, if their sizes do. */
export const difference = async (page: Page, one: Buffer, other: Buffer): Promise<number> =>
  one.equals(other)
    ? 0
    : page.evaluate(
        async (pictures) => {
          /** Of 255: edges are smoothed a little differently by each version of the browser. */
          const MOST = 64;
          const read = async (base64: string) => {
            const image = new Image();
            image.src = `data:image/png;base64,${base64}`;
            await image.decode();
            const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d")!;
            canvas.drawImage(image, 0, 0);
            return canvas.getImageData(0, 0, image.width, image.height);
          };
          const [a, b] = await Promise.all(pictures.map(read));
          if (a!.width !== b!.width || a!.height !== b!.height) return a!.width * a!.height;
          let count = 0;
          for (let at = 0; at < a!.data.length; at += 4) {
            if ([0, 1, 2].some((channel) => Math.abs(a!.data[at + channel]! - b!.data[at + channel]!) > MOST))
              count += 1;
          }
          return count;
        },
        [one.toString("base64"), other.toString("base64")],
      );
