// A document in Node. Only what React needs of it: requests, signals and sockets stay Node's own, which those of jsdom do not work
// together with. Import it before everything else.

// @ts-expect-error: it has no types of its own.
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html><body></body>", { url: "http://localhost/", pretendToBeVisual: true });
const names = [
  "document",
  "Node",
  "Element",
  "HTMLElement",
  "HTMLIFrameElement",
  "MutationObserver",
  "DocumentFragment",
  "navigator",
];
for (const name of names) Object.defineProperty(globalThis, name, { value: window[name], configurable: true });
Object.defineProperty(globalThis, "window", { value: window, configurable: true });

// Updates come from the network, not from the tests: React is to do its work as it does in a page.
Object.defineProperty(globalThis, "IS_REACT_ACT_ENVIRONMENT", { value: false, writable: true });
