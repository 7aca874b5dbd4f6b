// A document in Node with only the parts that React needs: requests, signals and sockets stay Node's own, since those of
// jsdom are not compatible with them. Import it before other modules.

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

// Updates come from the network, not from the tests: React works as in a page.
Object.defineProperty(globalThis, "IS_REACT_ACT_ENVIRONMENT", { value: false, writable: true });
