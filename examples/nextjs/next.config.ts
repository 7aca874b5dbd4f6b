import { join } from "node:path";
import type { NextConfig } from "next";

// Only because the package `threadline` is a folder of this repository, outside of the example.
const root = join(import.meta.dirname, "../..");

export default { turbopack: { root }, outputFileTracingRoot: root } satisfies NextConfig;
