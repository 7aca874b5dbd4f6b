import { createRoot } from "react-dom/client";
import { Threadline } from "threadline";
import { ThreadlineProvider } from "threadline/react";
import "../../src/style/index.css";
import { type Cell, CELLS } from "./cells.tsx";
import "./page.css";

const WRAPPED: Record<Cell["place"], string> = {
  conversation: "messages-content",
  pane: "pane main",
  sidebar: "pane sidebar",
  inspector: "pane inspector",
};

// Loaded before any layout in another font: the font exists only where letters are boxes.
await document.fonts.load("1rem Boxes");

// The page's own address: no server is asked.
const client = new Threadline({ url: location.origin });
createRoot(document.getElementById("app")!).render(
  <ThreadlineProvider client={client}>
    {CELLS.map(({ name, place, node, whole }) => (
      <section key={name} data-cell={name} data-long={whole?.replace(/\s/g, "").length}>
        <div className={WRAPPED[place]}>{node}</div>
      </section>
    ))}
  </ThreadlineProvider>,
);
