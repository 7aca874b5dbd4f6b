import { vi } from "vitest";

vi.mock("ai", () => import("ai6"));

const { cases } = await import("./transport.js");
cases("6", await import("ai"));
