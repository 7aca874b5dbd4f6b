// Functions for servers: unlike the hooks, it also runs in React Server Components, so nothing here may import a module with
// "use client".

export { dehydrate } from "./dehydrate.js";
export type { Dehydrated } from "./seed.js";
