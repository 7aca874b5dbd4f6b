import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Threadline } from "threadline";
import { ThreadlineProvider } from "threadline/react";
import { App } from "./App.tsx";

// A public page uses a token: https://threads.example.com, token: () => fetchToken()
const url = new URLSearchParams(location.search).get("server") ?? "http://localhost:7420";
const client = new Threadline({ url });

createRoot(document.body).render(
  <StrictMode>
    <ThreadlineProvider client={client}>
      <App />
    </ThreadlineProvider>
  </StrictMode>,
);
