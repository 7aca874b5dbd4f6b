import { BookOpen, Hash, Keyboard, LogOut, Monitor, Moon, Sun, UserRound } from "lucide-react";
import { useState } from "react";
import { Dialog } from "../parts/Dialog.tsx";
import { Menu, type MenuItem } from "../parts/Menu.tsx";
import { go } from "../route.ts";
import { serverUrl } from "../session.ts";
import { useSession } from "../session-context.ts";
import { chooseTheme, type Theme, useTheme } from "../theme.ts";
import { Help } from "./Help.tsx";
import { useShortcuts } from "./shortcuts.ts";
import { userOf } from "./user.ts";

type Asked = "user" | "thread" | "help" | null;

/** The user, the theme, and a menu of other places. */
export function Footer() {
  const { credentials, actAs, signOut } = useSession();
  const [asked, setAsked] = useState<Asked>(null);
  const isSignedIn = credentials.apiKey !== undefined || credentials.token !== undefined;
  useShortcuts({ "?": () => setAsked("help") });
  const user = userOf(credentials);
  const items: MenuItem[] = [
    ...(credentials.token === undefined
      ? [{ label: "View as user…", icon: <UserRound />, onSelect: () => setAsked("user") }]
      : []),
    { label: "Open a thread by id…", icon: <Hash />, onSelect: () => setAsked("thread") },
    { label: "Keyboard shortcuts", icon: <Keyboard />, onSelect: () => setAsked("help") },
    { label: "OpenAPI document", icon: <BookOpen />, onSelect: () => open(address("v1/openapi.json")) },
    ...(isSignedIn ? [{ label: "Sign out", icon: <LogOut />, onSelect: signOut }] : []),
  ];
  const close = () => setAsked(null);
  return (
    <footer className="sidebar-footer">
      <span className="avatar" aria-hidden="true">
        {user.slice(0, 1).toUpperCase()}
      </span>
      <span className="user" title={user}>
        <span className="visually-hidden">User </span>
        {user}
      </span>
      <ThemeChoice />
      <Menu label="More" items={items} />
      {asked === "user" && (
        <Dialog
          title="View as user"
          confirm="View"
          onConfirm={(form) => (actAs(text(form, "user")), go({ name: "home" }))}
          onClose={close}
        >
          <label className="field">
            <span>User</span>
            <input
              className="input"
              name="user"
              defaultValue={credentials.user}
              required
              autoFocus
              autoComplete="off"
            />
            <small>The console shows this user’s threads and acts on their behalf.</small>
          </label>
        </Dialog>
      )}
      {asked === "thread" && (
        <Dialog
          title="Open a thread"
          confirm="Open"
          onConfirm={(form) => go({ name: "thread", threadId: text(form, "threadId") })}
          onClose={close}
        >
          <label className="field">
            <span>Thread id</span>
            <input className="input mono" name="threadId" required pattern=".*\S.*" autoFocus autoComplete="off" />
          </label>
        </Dialog>
      )}
      {asked === "help" && <Help onClose={close} />}
    </footer>
  );
}

const THEMES: readonly [Theme, string, typeof Sun][] = [
  ["system", "Same as the system", Monitor],
  ["light", "Light", Sun],
  ["dark", "Dark", Moon],
];

function ThemeChoice() {
  const chosen = useTheme();
  return (
    <fieldset className="theme-choice">
      <legend className="visually-hidden">Theme</legend>
      {THEMES.map(([theme, label, Icon]) => (
        <label key={theme} title={label}>
          <input
            type="radio"
            className="visually-hidden"
            name="theme"
            aria-label={label}
            checked={theme === chosen}
            onChange={() => chooseTheme(theme)}
          />
          <Icon aria-hidden="true" />
        </label>
      ))}
    </fieldset>
  );
}

function open(url: string): void {
  window.open(url, "_blank", "noopener,noreferrer");
}

function address(path: string): string {
  return new URL(path, serverUrl()).href;
}

function text(form: FormData, name: string): string {
  return String(form.get(name) ?? "").trim();
}
