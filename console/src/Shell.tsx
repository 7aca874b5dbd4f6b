import { Banner } from "./Banner.tsx";
import { Welcome } from "./conversation/Welcome.tsx";
import { NewThread } from "./conversation/NewThread.tsx";
import { ThreadPane } from "./conversation/ThreadPane.tsx";
import { Inspector } from "./inspector/Inspector.tsx";
import { Boundary } from "./parts/Boundary.tsx";
import { useRoute } from "./route.ts";
import { Sidebar } from "./threads/Sidebar.tsx";

/** The panes. */
export function Shell({ failure, onAgain }: { readonly failure: string | undefined; readonly onAgain: () => void }) {
  const route = useRoute();
  const panel = route.name === "thread" ? route.panel : undefined;
  const place = route.name === "home" ? "at-list" : "at-thread";
  return (
    <div className="shell">
      <a className="skip-link" href="#main" onClick={skip}>
        Skip to the conversation
      </a>
      <Banner failure={failure} onAgain={onAgain} />
      <div className={["panes", place, panel && "inspecting"].filter(Boolean).join(" ")}>
        <Sidebar selected={route.name === "thread" ? route.threadId : undefined} />
        <main id="main" className="pane main" tabIndex={-1}>
          {route.name === "home" && <Welcome />}
          {route.name === "new" && <NewThread agentId={route.agentId} />}
          {route.name === "thread" && (
            <Boundary key={route.threadId} what="This conversation">
              <ThreadPane {...route} />
            </Boundary>
          )}
        </main>
        {route.name === "thread" && panel && (
          <Inspector key={route.threadId} threadId={route.threadId} panel={panel} at={route.at} event={route.event} />
        )}
      </div>
    </div>
  );
}

/** The hash is the route's: a link into the page must not change it. */
function skip(event: { preventDefault(): void }): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}
