// Styles that `npm run lint` refuses.

import { expect, test } from "vitest";
import { complaints } from "../../lint-styles.mjs";

test("the styles name the component whose state they are for", { timeout: 60_000 }, () => {
  expect(complaints()).toEqual([]);
});

const STATE = /is a state that any component may have/;
test.each([
  [".running { height: 0.8rem }", STATE],
  [".failed, .tool-card { height: 0.8rem }", STATE],
  [".messages .waiting { color: red }", STATE],
  ["section.done { color: red }", STATE],
  [".growing:hover > p { color: red }", STATE],
  ["@media (hover: none) { .selected { color: red } }", STATE],
  [":is(.unread, .thread-row) { color: red }", STATE],
  [".tool-card { .failed { color: red } }", STATE],
  ["/* .running */ .error:not(.notice) { color: red }", STATE],
  [".nobody { color: red }", /that no element has/],
])("refused: %s", { timeout: 60_000 }, (css, why) => {
  expect(complaints({ "planted.css": css })).toEqual([expect.stringMatching(why)]);
  expect(complaints({ "planted.css": css })[0]).toMatch(/^planted\.css:1 /);
});

test("allowed: a state with its component, and a class of a family of its own", { timeout: 60_000 }, () => {
  const css = ".tool-card.running, .said.growing > p, .status-error, .rail-3, :where(.notice).error { color: red }";
  expect(complaints({ "more.css": css })).toEqual([]);
});
