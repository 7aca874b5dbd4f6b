import { expect, test } from "vitest";
import { href, parse, type Route } from "../../src/route.ts";

const ROUTES: readonly Route[] = [
  { name: "home" },
  { name: "new" },
  { name: "new", agentId: "a/b?c#d&e=é 😀" },
  { name: "thread", threadId: "t" },
  { name: "thread", threadId: "a/b?c#d&e=%41 é😀" },
  { name: "thread", threadId: "..", panel: "events" },
  { name: "thread", threadId: "t", panel: "state", at: 0 },
  { name: "thread", threadId: "t", panel: "runs", at: 12, event: 7 },
  { name: "thread", threadId: "t", event: 999_999_999_999_999 },
];

test.each(ROUTES)("%j comes back from its address", (route) => {
  const { hash } = new URL(href(route), "http://localhost/");
  expect(parse(hash)).toEqual(route);
});

test.each(["", "#", "#/", "#/nowhere", "#/threads", "#/threads/", "#/threads/%E0%A4%A", "#threads", "#//threads/x"])(
  "%j is the list",
  (hash) => {
    expect(parse(hash)).toEqual({ name: "home" });
  },
);

test("invalid parts of an address are left out", () => {
  const odd = parse("#/threads/t?panel=nothing&at=-1&event=1e3");
  expect(odd).toEqual({ name: "thread", threadId: "t" });
  expect(parse("#/threads/t?at=9999999999999999")).toEqual({ name: "thread", threadId: "t" });
  expect(parse("#/new?agent=")).toEqual({ name: "new" });
});
