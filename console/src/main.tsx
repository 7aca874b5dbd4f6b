import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App.tsx";
import { Boundary } from "./parts/Boundary.tsx";
import "./style/index.css";
import { followTheme } from "./theme.ts";

followTheme();
createRoot(document.getElementById("app")!).render(
  <StrictMode>
    <Boundary what="The console">
      <App />
    </Boundary>
  </StrictMode>,
);
